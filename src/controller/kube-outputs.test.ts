import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import type { Config } from '../config/config.ts';
import { readConfig } from '../config/read-config.ts';
import { definitionOf } from '../kube/definition.samples.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { KubeServer, KubeServers } from '../kube/kube-servers.ts';
import { dnsEndpoints } from '../outputs/dns-endpoint.ts';
import { plan } from '../plan/plan.ts';
import { KubeOutputs } from './kube-outputs.ts';

const FILE = `listen: [":0"]
sources: [{ steward: {} }]
outputs: [{ ingress: { flavor: fromCluster } }]
`;

function kubeOutputs(api: (server: KubeServer) => KubeApi, changed: () => void = () => {}): KubeOutputs {
  const open = (server: KubeServer) => ({ ...api(server), [Symbol.dispose]() {} });
  return new KubeOutputs({
    servers: { api, open } as unknown as KubeServers,
    identity: 'a',
    isUp: () => true,
    log: { info() {}, warn() {} } as unknown as Logger,
    version: '1',
    keyOf: () => undefined,
    changed,
  });
}

function configOf(text: string): Config {
  const read = readConfig(text, 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  return read.config;
}

test('KubeOutputs asks for another plan where this one leads to other findings, and only then', async () => {
  const store = memoryStore();
  let changes = 0;
  await using outputs = kubeOutputs(
    () => store.client(),
    () => changes++,
  );
  outputs.use(configOf(FILE));
  const of = (controllerType: string) =>
    sampleCluster('tenants.a', {
      origin: sampleOrigin('steward', 'tenants', 'a'),
      routes: [sampleRoute({ hosts: ['a.test'], service: { namespace: 'tenants', name: 'a', port: 6443 } })],
      controlPlane: { isPaused: false, ingress: { controllerType, annotations: {} } },
    });
  const update = (cluster: ReturnType<typeof of>) => {
    const before = changes;
    const source = { name: 'steward', clusters: [cluster], synced: true, complete: true };
    outputs.update(plan([cluster]), [source], []);
    return { asked: changes - before, codes: outputs.findings.map(({ code }) => code) };
  };
  const [good, bad] = [of('haproxy'), of('unheard-of')];
  assert.deepEqual(update(good), { asked: 0, codes: [] });
  assert.deepEqual(update(bad), { asked: 1, codes: ['OutputRejected'] });
  assert.deepEqual(update(bad), { asked: 0, codes: ['OutputRejected'] });
  assert.deepEqual(update(good), { asked: 1, codes: [] });
});

const DNS = 'outputs: [{ dnsEndpoint: { zone: dns.lab, targets: [192.0.2.1] } }]';
const IN_TWO = `sources:
  - directory: { path: clusters }
  - services: { domains: [lab], kubeconfig: first, namespaces: [team-a] }
  - services: { domains: [lab], kubeconfig: second }
`;

/** A cluster with apps. */
const shop = (name: string, source: string) =>
  sampleCluster(name, {
    id: name,
    origin: { source },
    routes: [sampleRoute({ kind: 'apps-https', hosts: [`*.${name}.lab`] })],
  });

for (const [where, sources, server] of [
  ['the first server in the file', IN_TWO, 'first'],
  [
    'the server of the pod, where no source names one',
    'sources: [{ directory: { path: clusters } }]\n',
    'own',
  ],
] as const) {
  test(`KubeOutputs writes the DNSEndpoints of files to ${where}, in the namespace of the lease`, async () => {
    const stores = new Map(
      ['own', 'first', 'second'].map(name => [name, memoryStore(definitionOf(dnsEndpoints))]),
    );
    await using outputs = kubeOutputs(
      ({ kubeconfig = 'own' }) => stores.get(kubeconfig)?.client() as KubeApi,
    );
    const written = () =>
      [...stores].flatMap(([at, store]) =>
        store.keys().flatMap(
          key =>
            /^DNSEndpoint\/(.+)-[0-9a-f]{10}$/
              .exec(key)
              ?.slice(1)
              .map(name => `${at}/${name}`) ?? [],
        ),
      );
    const config = configOf(`listen: [":0"]\n${sources}${DNS}\n`);
    const update = (clusters: readonly Cluster[], isListed = true) => {
      const observed = config.sources.map(({ name, kind }) => ({
        name,
        clusters: clusters.filter(({ origin }) => origin.source === name),
        synced: kind !== 'directory' || isListed,
        complete: kind !== 'directory' || isListed,
      }));
      outputs.update(plan(clusters), observed, []);
    };
    outputs.use(config);
    const both = [shop('a', 'file'), shop('b', 'directory')];
    const expected = async (...clusters: readonly string[]) => {
      const all = clusters.map(each => `${server}/causeway-system/${each}`);
      while (String(written().toSorted()) !== String(all)) await sleep(10);
    };
    update(both);
    await expected('a', 'b');
    // A directory that cannot be read has lost nothing; a file that was read has.
    update([], false);
    await expected('b');
    update(both);
    await expected('a', 'b');
    update(both.slice(0, 1));
    await expected('a');
    outputs.use({ ...config, outputs: [] });
    update(both.slice(0, 1));
    await expected();
  });
}
