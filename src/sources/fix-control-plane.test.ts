import assert from 'node:assert/strict';
import { test } from 'node:test';
import { patchJson } from '../../testbed/memory-kube/json-patch.ts';
import type { PatchOperation } from '../kube/kube-api.ts';
import { fixControlPlane } from './fix-control-plane.ts';
import { DOMAIN, documentedTenant, madeOf, type SampleTenant, sampleTenant } from './tenant.samples.ts';
import { kamaji, steward, type TenantControlPlane, type TenantSystem } from './tenant-control-plane.ts';

const annotations = { [DOMAIN]: 'clastix.cloud' };
const API = 'apezzuto-tenant-00.k8s.clastix.cloud';
const KONNECTIVITY = 'apezzuto-tenant-00.konnectivity.clastix.cloud';
const TEST: PatchOperation = { op: 'test', path: '/metadata/resourceVersion', value: '7' };
const NONE = '--endpoint-reconciler-type=none';

function fixesOf(object: TenantControlPlane, system: TenantSystem = kamaji, wantsReconcilerNone = true) {
  const { cluster } = madeOf(object, { system });
  assert.ok(cluster);
  return fixControlPlane(object, cluster, system, wantsReconcilerNone);
}

const add = (path: string, value: unknown): PatchOperation => ({ op: 'add', path, value });

const cases: readonly {
  readonly given: string;
  readonly tenant: SampleTenant;
  readonly expected: readonly PatchOperation[];
}[] = [
  {
    given: 'no spec',
    tenant: { annotations },
    expected: [],
  },
  {
    given: 'no lists',
    tenant: { annotations, spec: { controlPlane: {}, addons: { konnectivity: {} } } },
    expected: [
      add('/spec/networkProfile', { certSANs: [API, KONNECTIVITY] }),
      add('/spec/addons/konnectivity/agent', {
        extraArgs: [`--proxy-server-host=${KONNECTIVITY}`, '--proxy-server-port=443'],
      }),
      add('/spec/controlPlane/deployment', { extraArgs: { apiServer: [NONE] } }),
    ],
  },
  {
    given: 'lists with entries of the user',
    tenant: {
      annotations,
      spec: {
        networkProfile: { certSANs: ['mine.test'] },
        controlPlane: {
          ingress: { hostname: `${API}:8443` },
          deployment: { extraArgs: { apiServer: ['--v=2'], scheduler: ['--v=3'] } },
        },
        addons: { konnectivity: { agent: { extraArgs: ['--v=4'] } } },
      },
    },
    expected: [
      add('/spec/networkProfile/certSANs/-', API),
      add('/spec/networkProfile/certSANs/-', KONNECTIVITY),
      add('/spec/addons/konnectivity/agent/extraArgs/-', `--proxy-server-host=${KONNECTIVITY}`),
      add('/spec/addons/konnectivity/agent/extraArgs/-', '--proxy-server-port=8443'),
      add('/spec/controlPlane/deployment/extraArgs/apiServer/-', NONE),
    ],
  },
  {
    given: 'lists that are null',
    tenant: {
      annotations,
      spec: {
        networkProfile: { certSANs: null },
        controlPlane: { deployment: { extraArgs: { apiServer: [NONE] } } },
      },
    },
    expected: [add('/spec/networkProfile/certSANs', [API])],
  },
  {
    given: 'flags that the user has set to something else',
    tenant: {
      annotations,
      spec: {
        networkProfile: { certSANs: ['*.k8s.clastix.cloud', KONNECTIVITY] },
        controlPlane: { deployment: { extraArgs: { apiServer: ['--endpoint-reconciler-type', 'lease'] } } },
        addons: {
          konnectivity: { agent: { extraArgs: ['--proxy-server-host=k.test', '--proxy-server-port', '1'] } },
        },
      },
    },
    expected: [],
  },
];

for (const { given, tenant, expected } of cases) {
  test(`fixControlPlane() with ${given}: appends, loses nothing, and is done then`, () => {
    const object = sampleTenant(tenant);
    const operations = fixesOf(object);
    assert.deepEqual(operations, expected.length === 0 ? [] : [TEST, ...expected]);
    const patched = structuredClone(object);
    patchJson(patched, operations);
    assert.deepEqual(fixesOf(patched), []);
    assert.ok(keeps(patched, object), JSON.stringify(patched));
  });
}

test('fixControlPlane() has nothing to add to the object of the guide', () => {
  assert.deepEqual(fixesOf(documentedTenant()), []);
});

test('fixControlPlane() leaves a paused object alone', () => {
  const spec = { controlPlane: {} };
  const paused = { ...annotations, 'causeway.dev/paused': 'true' };
  assert.notDeepEqual(fixesOf(sampleTenant({ annotations, spec })), []);
  assert.deepEqual(fixesOf(sampleTenant({ annotations: paused, spec })), []);
});

test('fixControlPlane() adds the reconciler flag only where we write endpoints', () => {
  const object = sampleTenant({ annotations, spec: { networkProfile: { certSANs: [API] } } });
  assert.deepEqual(fixesOf(object, kamaji, false), []);
  // With its addon Steward sets it.
  const spec = { networkProfile: { certSANs: [API] }, addons: { tcpProxy: {} } };
  assert.deepEqual(fixesOf(sampleTenant({ system: steward, annotations, spec }), steward), []);
});

test('fixControlPlane() does not certify hosts that the plan has given to others', () => {
  const object = sampleTenant({ annotations, spec: { controlPlane: {} } });
  const { cluster } = madeOf(object);
  assert.ok(cluster);
  const settled = { ...cluster, routes: cluster.routes.map(route => ({ ...route, hosts: [] })) };
  assert.deepEqual(fixControlPlane(object, settled, kamaji, false), []);
});

test('fixControlPlane() does not replace what has another type', () => {
  for (const networkProfile of ['x', 7, { certSANs: 'x' }, { certSANs: {} }]) {
    assert.deepEqual(fixesOf(sampleTenant({ annotations, spec: { networkProfile } }), kamaji, false), []);
  }
});

/** Whether everything of `before` is still there; lists may have become longer, null may have become a list. */
function keeps(after: unknown, before: unknown): boolean {
  if (before === null) return true;
  if (typeof before !== 'object') return Object.is(after, before);
  return Object.entries(before).every(([key, value]) =>
    keeps((after as Record<string, unknown>)[key], value),
  );
}
