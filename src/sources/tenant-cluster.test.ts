// Properties of the reading of TenantControlPlanes: whatever tenants write, nothing throws, and whatever comes out is
// legal.

import assert from 'node:assert/strict';
import { BlockList, isIP } from 'node:net';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { CLUSTER_ID } from '../cluster/cluster-id.ts';
import { isHostname } from '../cluster/hostname.ts';
import { parseCidr } from '../wire/ip-address.ts';
import { fixControlPlane } from './fix-control-plane.ts';
import { DOMAIN, documentedTenant, fixedLookup, sampleTenant } from './tenant.samples.ts';
import { tenantCluster } from './tenant-cluster.ts';
import { kamaji, keepTenantControlPlane, steward, type TenantControlPlane } from './tenant-control-plane.ts';

const nasty = fc.constantFrom(
  '',
  '*',
  '*.example.com',
  'api.example.com:443',
  'a b',
  'x\0y',
  '10.0.0.1',
  '-',
  '.',
  ':',
  '::',
  '--proxy-server-host=*',
  '--proxy-server-host=k.example.com',
  '10.0.0.0/8',
  '10.0.0.0/99',
  '\u202e',
  'x'.repeat(300),
);
const leaf = fc.oneof(
  nasty,
  fc.string({ unit: 'binary' }),
  fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>,
);
const maybe = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: value }, { weight: 1, arbitrary: leaf });
const texts = maybe(fc.array(leaf, { maxLength: 4 }));

/** Close enough to a real object that the reading goes deep, with anything at all in every place. */
const anySpec = maybe(
  fc.record({
    controlPlane: maybe(
      fc.record({
        service: maybe(fc.record({ serviceType: leaf })),
        ingress: maybe(fc.record({ hostname: leaf, ingressClassName: leaf, controllerType: leaf })),
        gateway: maybe(fc.record({ hostname: leaf })),
        deployment: maybe(fc.record({ extraArgs: maybe(fc.record({ apiServer: texts })) })),
      }),
    ),
    networkProfile: maybe(fc.record({ port: leaf, certSANs: texts, loadBalancerSourceRanges: texts })),
    addons: maybe(
      fc.record({
        konnectivity: maybe(fc.record({ agent: maybe(fc.record({ extraArgs: texts })), server: leaf })),
        tcpProxy: maybe(
          fc.record({ hostAliases: texts, image: leaf, resources: leaf, internalEndpoint: leaf }),
        ),
      }),
    ),
  }),
);
const anyAnnotations = fc.dictionary(
  fc.constantFrom(
    DOMAIN,
    'steward.butlerlabs.dev/ingress.domain',
    'causeway.dev/allow',
    'causeway.dev/paused',
  ),
  fc.oneof(nasty, fc.string()),
);
const anyTenant = fc
  .record({ annotations: anyAnnotations, spec: anySpec, status: maybe(fc.record({ kubeconfig: leaf })) })
  .map(parts => sampleTenant(JSON.parse(JSON.stringify(parts))));
const anyOptions = fc.record({
  source: fc.constant('kamaji'),
  system: fc.constantFrom(kamaji, steward),
  expose: fc.constantFrom('annotated' as const, 'all' as const),
  via: fc.constantFrom('endpoints' as const, 'clusterIP' as const),
  domain: fc.constantFrom(undefined, 'example.com'),
  wantsReconcilerNone: fc.boolean(),
});

test('tenantCluster() never throws, and yields only legal hosts, ids and CIDRs', () => {
  fc.assert(
    fc.property(anyTenant, anyOptions, (object, options) => {
      const kept = keepTenantControlPlane(object);
      const made = tenantCluster(kept, fixedLookup(), options);
      // What is dropped is not read.
      assert.deepEqual(made, tenantCluster(object, fixedLookup(), options));
      for (const { text, fix, origin } of made.findings) {
        assert.ok(text.length < 1000 && fix.length < 2000, text);
        assert.ok(origin?.object);
      }
      const { cluster } = made;
      if (cluster === undefined) return;
      assert.match(cluster.id ?? '', CLUSTER_ID);
      for (const range of cluster.allow ?? []) assert.ok(parseCidr(range), range);
      const hosts = cluster.routes.flatMap(route => route.hosts);
      for (const host of hosts) assert.ok(isHostname(host), host);
      assert.equal(new Set(hosts).size, hosts.length);
      assert.ok(Array.isArray(fixControlPlane(kept, cluster, options.system, true)));
    }),
    { numRuns: 2000 },
  );
});

test('tenantCluster() never lets in more clients because of a mistake', () => {
  const ranges = fc.constantFrom(
    '10.0.0.0/8',
    '10.1.0.0/16',
    '192.0.2.0/24',
    '::/0',
    '0.0.0.0/0',
    '2001:db8::1',
  );
  const bad = fc.constantFrom('x', '10.0.0.0/33', '10.0.0', '1.2.3.4/');
  const list = fc.array(fc.oneof(ranges, bad), { minLength: 1, maxLength: 5 });
  const addresses = ['10.1.2.3', '10.200.0.1', '192.0.2.9', '203.0.113.1', '2001:db8::1', '2001:db8::2'];
  fc.assert(
    fc.property(list, list, (spec, annotation) => {
      const object = sampleTenant({
        annotations: { [DOMAIN]: 'example.com', 'causeway.dev/allow': annotation.join() },
        spec: { networkProfile: { loadBalancerSourceRanges: spec } },
      });
      const options = { source: 'kamaji', system: kamaji, expose: 'annotated', via: 'endpoints' } as const;
      const { cluster } = tenantCluster(object, fixedLookup(), options);
      const good = (texts: readonly string[]) =>
        texts.filter(text => !['x', '10.0.0.0/33', '10.0.0', '1.2.3.4/'].includes(text));
      for (const address of addresses) {
        assert.equal(
          admits(cluster?.allow ?? ['0.0.0.0/0', '::/0'], address),
          admits(good(spec), address) && admits(good(annotation), address),
          address,
        );
      }
    }),
  );
});

test('keepTenantControlPlane() drops what is large and never read', () => {
  const object = documentedTenant() as TenantControlPlane & {
    spec: { controlPlane: { deployment: object } };
  };
  const large = {
    ...object.spec.controlPlane.deployment,
    podAdditionalMetadata: { annotations: { x: 'y'.repeat(9999) } },
  };
  const status = { kubernetesResources: { deployment: { conditions: 'y'.repeat(9999) } } };
  const annotations = {
    ...object.metadata.annotations,
    'kubectl.kubernetes.io/last-applied-configuration': 'y'.repeat(9999),
  };
  const kept = keepTenantControlPlane({
    ...object,
    metadata: { ...object.metadata, annotations },
    spec: { ...object.spec, controlPlane: { ...object.spec.controlPlane, deployment: large } },
    status,
  });
  assert.ok(JSON.stringify(kept).length < 1200, JSON.stringify(kept));
});

/** IPv4 and IPv6 apart: a BlockList would let `::/0` match an IPv4 address. */
function admits(cidrs: readonly string[], address: string): boolean {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network, prefix] = cidr.split('/');
    if (network.includes(':') !== (family === 'ipv6')) continue;
    if (prefix === undefined) list.addAddress(network, family);
    else list.addSubnet(network, Number(prefix), family);
  }
  return list.check(address, family);
}
