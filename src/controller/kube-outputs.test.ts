import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Logger } from 'pino';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import { readConfig } from '../config/read-config.ts';
import type { KubeServers } from '../kube/kube-servers.ts';
import { plan } from '../plan/plan.ts';
import { KubeOutputs } from './kube-outputs.ts';

const FILE = `listen: [":0"]
sources: [{ steward: {} }]
outputs: [{ ingress: { flavor: fromCluster } }]
`;

test('KubeOutputs asks for another plan where this one leads to other findings, and only then', async () => {
  const store = memoryStore();
  const servers = {
    api: () => store.client(),
    open: () => ({ ...store.client(), [Symbol.dispose]() {} }),
  } as unknown as KubeServers;
  const log = { info() {}, warn() {} } as unknown as Logger;
  let changes = 0;
  await using outputs = new KubeOutputs({
    servers,
    identity: 'a',
    isUp: () => true,
    log,
    version: '1',
    keyOf: () => undefined,
    changed: () => changes++,
  });
  const read = readConfig(FILE, 'causeway.yaml');
  assert.ok(read.ok);
  outputs.use(read.config);
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
