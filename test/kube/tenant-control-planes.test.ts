// The sources Kamaji and Steward against a real API server with their real CustomResourceDefinitions.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { parse } from 'yaml';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type Clock, systemClock } from '../../src/kube/clock.ts';
import type { KubeApi } from '../../src/kube/kube-api.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { customResourceDefinitions, endpointSlices, services } from '../../src/kube/resources.ts';
import type { Observation } from '../../src/sources/source.ts';
import { DOMAIN, documentedTenant, routesOf } from '../../src/sources/tenant.samples.ts';
import {
  kamaji,
  steward,
  type TenantControlPlane,
  type TenantSystem,
} from '../../src/sources/tenant-control-plane.ts';
import {
  openKamaji,
  openSteward,
  type TenantControlPlanes,
} from '../../src/sources/tenant-control-planes.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiServer } from '../../testbed/start-api-server.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const options = { skip, timeout: 120_000 };
const CRDS = join(import.meta.dirname, '../../testbed/crds');

const SPEED = 50;
const fastClock: Clock = {
  ...systemClock,
  now: () => systemClock.now() * SPEED,
  wait: (ms, signal) => systemClock.wait(ms / SPEED, signal),
};

async function definitionOf({ title }: TenantSystem): Promise<KubeObject> {
  return parse(await readFile(join(CRDS, `${title.toLowerCase()}-tenantcontrolplanes.yaml`), 'utf8'));
}

async function install(api: KubeApi, system: TenantSystem): Promise<void> {
  const definition = await definitionOf(system);
  await until(async () => (await api.create(customResourceDefinitions, definition)).ok);
  await until(async () => (await api.list(system.resource, {})).ok);
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await setTimeout(10);
}

/** Until exactly this is observed of one cluster. */
async function seen(source: TenantControlPlanes, condition: (cluster: Cluster, all: Observation) => boolean) {
  await until(() => {
    const all = source.observe();
    return all.clusters.length === 1 && condition(all.clusters[0], all);
  });
  return source.observe();
}

/** What the operator creates for an object. */
async function createService(api: KubeApi, name: string): Promise<void> {
  const named = (port: number, portName: string) => ({ name: portName, port, protocol: 'TCP' });
  const ports = [named(6443, 'kube-apiserver'), named(8132, 'konnectivity-server')];
  const metadata = { name, namespace: 'default' };
  const service = { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports } };
  assert.ok((await api.create(services, service as KubeObject)).ok);
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.244.0.7'], conditions: { ready: true } }],
    ports,
  };
  assert.ok((await api.create(endpointSlices, slice)).ok);
}

for (const [system, open] of [
  [kamaji, openKamaji],
  [steward, openSteward],
] as const) {
  test(`${system.title}: create, annotate, fix, change, delete, delete the definition`, options, async () => {
    const { resource } = system;
    await using server = await startApiServer();
    using api = openKubeClient({
      access: await openKubeAccess({ kubeconfig: await server.kubeconfig() }),
      timeoutMs: 60_000,
    });
    await using source = open(
      { expose: 'annotated', via: 'endpoints', fix: true },
      {
        name: system.title.toLowerCase(),
        folder: '/',
        kubeApi: () => api,
        clock: fastClock,
        wantsReconcilerNone: true,
      },
      () => {},
    );
    await until(() => source.observe().synced);
    assert.deepEqual(
      source.observe().findings.map(({ code }) => code),
      ['SourceCrdMissing'],
    );
    await install(api, system);
    const created = await api.create(resource, minimal(system));
    assert.ok(created.ok, JSON.stringify(created));
    await until(() => source.observe().complete);
    assert.deepEqual(source.observe().clusters, []);

    await createService(api, 't');
    await merge({ metadata: { annotations: { [DOMAIN]: 'example.com' } } });
    const { clusters, findings } = await seen(source, ({ routes }) => routes[0].pool.backends.length > 0);
    const [cluster] = clusters;
    assert.equal(cluster.id, created.value.metadata.uid);
    assert.deepEqual(routesOf(cluster), {
      api: 'default-t.k8s.example.com → 10.244.0.7:6443',
      konnectivity: 'default-t.konnectivity.example.com → 10.244.0.7:8132',
    });
    assert.deepEqual(findings.map(({ code }) => code).toSorted(), [
      'CertificateSanMissing',
      'HostnamePortMissing',
      'KonnectivityArgsMissing',
      'ReconcilerTypeMissing',
    ]);

    // The fix, after the user has added something: refused first, then done on top of it.
    const stale = source.fixesFor(cluster);
    await merge({ spec: { networkProfile: { certSANs: ['mine.test'] } } });
    const refused = await api.patch(resource, 'default', 't', stale);
    assert.equal(refused.ok ? 200 : refused.fault.status, 422);
    await until(async () => {
      const operations = source.fixesFor(source.observe().clusters[0]);
      return (await api.patch(resource, 'default', 't', operations)).ok;
    });
    await seen(source, (_, all) => all.findings.every(({ code }) => code === 'HostnamePortMissing'));
    assert.deepEqual(source.fixesFor(source.observe().clusters[0]), []);
    const fixed = await api.get(resource, 'default', 't');
    assert.ok(fixed.ok);
    const { networkProfile, addons, controlPlane } = fixed.value.spec as Spec;
    assert.deepEqual(networkProfile.certSANs, [
      'mine.test',
      'default-t.k8s.example.com',
      'default-t.konnectivity.example.com',
    ]);
    assert.deepEqual(addons.konnectivity.agent.extraArgs, [
      '--proxy-server-host=default-t.konnectivity.example.com',
      '--proxy-server-port=443',
    ]);
    assert.deepEqual(controlPlane.deployment.extraArgs.apiServer, [
      '--v=2',
      '--endpoint-reconciler-type=none',
    ]);
    // None of this has changed what is served.
    const [completed] = source.observe().clusters;
    assert.deepEqual(completed.controlPlane?.certSANs, networkProfile.certSANs);
    assert.deepEqual({ ...completed, controlPlane: cluster.controlPlane }, cluster);

    await merge({ spec: { controlPlane: { ingress: { hostname: 'api.example.com:443' } } } });
    await seen(source, ({ routes }) => routes[0].hosts.includes('api.example.com'));
    await merge({ metadata: { annotations: { 'causeway.dev/allow': '10.0.0.0/8' } } });
    await seen(source, ({ allow }) => allow?.join() === '10.0.0.0/8');
    await merge({ metadata: { annotations: { [DOMAIN]: null } }, spec: { controlPlane: { ingress: null } } });
    await until(() => source.observe().clusters.length === 0);

    await merge({ metadata: { annotations: { [DOMAIN]: 'example.com' } } });
    await seen(source, () => true);
    assert.ok((await api.remove(resource, minimal(system))).ok);
    await until(() => source.observe().clusters.length === 0);
    assert.equal(source.observe().complete, true);

    const tenant = documentedFor(system);
    assert.ok((await api.create(resource, tenant)).ok);
    const [last] = (await seen(source, () => true)).clusters;
    assert.ok((await api.remove(customResourceDefinitions, await definitionOf(system))).ok);
    await until(() => source.observe().findings.some(({ code }) => code === 'SourceCrdMissing'));
    assert.deepEqual([source.observe().complete, source.observe().clusters], [false, [last]]);

    async function merge(patch: Readonly<Record<string, unknown>>): Promise<void> {
      const merged = await api.merge(resource, 'default', 't', patch);
      assert.ok(merged.ok, JSON.stringify(merged));
    }
  });
}

interface Spec {
  readonly networkProfile: { readonly certSANs: readonly string[] };
  readonly addons: { readonly konnectivity: { readonly agent: { readonly extraArgs: readonly string[] } } };
  readonly controlPlane: {
    readonly deployment: { readonly extraArgs: { readonly apiServer: readonly string[] } };
  };
}

/** As little as the definition accepts, with konnectivity and one argument of the user's. */
function minimal({ resource: { group, version } }: TenantSystem): TenantControlPlane {
  return {
    apiVersion: `${group}/${version}`,
    kind: 'TenantControlPlane',
    metadata: { name: 't', namespace: 'default' },
    spec: {
      kubernetes: { version: 'v1.31.0', kubelet: { cgroupfs: 'systemd' } },
      // Their validation needs it, empty or not.
      networkProfile: {},
      controlPlane: {
        service: { serviceType: 'ClusterIP' },
        deployment: { extraArgs: { apiServer: ['--v=2'] } },
      },
      addons: { konnectivity: {} },
    },
  };
}

function documentedFor({ resource: { group, version } }: TenantSystem): TenantControlPlane {
  const { kind, spec, metadata } = documentedTenant('default', 't');
  const { name, namespace, annotations } = metadata;
  return {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: { name, namespace: namespace as string, annotations: annotations as Record<string, string> },
    spec,
  };
}
