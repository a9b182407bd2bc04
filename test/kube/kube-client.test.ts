// The client and what stands on it against real API servers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kubeApiContract } from '../../src/kube/kube-api.contract.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { kubeEvent } from '../../src/kube/kube-event.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { events } from '../../src/kube/resources.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiServer } from '../../testbed/start-api-server.ts';
import { startEtcd } from '../../testbed/start-etcd.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const timeout = 240_000;

kubeApiContract(
  'openKubeClient()',
  async () => {
    const stack = new AsyncDisposableStack();
    const store = stack.use(await startEtcd());
    // An API server that finds a store in use knows nothing of what was before.
    for (let i = 0; i < 10; i++) {
      const body = JSON.stringify({ key: 'YQ==', value: 'YQ==' });
      assert.ok((await fetch(`${store.url}/v3/kv/put`, { method: 'POST', body })).ok);
    }
    const server = stack.use(await startApiServer({ store }));
    const kubeconfig = await server.kubeconfig();
    const access = await openKubeAccess({ kubeconfig });
    return {
      // Every list of more than three has several pages.
      api: stack.use(openKubeClient({ access, page: 3, timeoutMs: 60_000 })),
      async applyAs(manager, _, object) {
        const args = ['apply', '--server-side', `--field-manager=${manager}`, '-f', '-'];
        const { code, stderr } = await kubectl(kubeconfig, args, { input: JSON.stringify(object) });
        assert.equal(code, 0, stderr);
      },
      forget: async () => {},
      [Symbol.asyncDispose]: () => stack.disposeAsync(),
    };
  },
  { skip, timeout },
);

test('kubeEvent() is accepted for objects with and without a namespace, whatever their names', {
  skip,
  timeout,
}, async () => {
  await using server = await startApiServer();
  using api = openKubeClient({ access: await openKubeAccess({ kubeconfig: await server.kubeconfig() }) });
  const about = { type: 'Warning', action: 'Plan', instance: 'test', now: new Date() } as const;
  for (const regarding of [
    { apiVersion: 'v1', kind: 'Service', namespace: 'default', name: 'kubernetes' },
    { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', name: 'system:node' },
    { apiVersion: 'v1', kind: 'Secret', namespace: 'kube-system', name: `${'a'.repeat(250)}.b` },
  ]) {
    const event = kubeEvent({ ...about, regarding, reason: 'HostClaimed', note: 'ü'.repeat(1000) });
    const created = await api.create(events, event);
    assert.ok(created.ok, JSON.stringify(created));
  }
  // Under load the API server adds Warning Events of its own to Service `default/kubernetes`.
  const field = '{.items[?(@.reason=="HostClaimed")].reportingComponent}';
  assert.equal(await server.kubectl('get', 'events', '-o', `jsonpath=${field}`), 'causeway causeway');
});
