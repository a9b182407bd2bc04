// The programs that make Pods out of workloads, without a gateway.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../test/features/given.ts';
import { missingGoPrograms } from './go-build.ts';
import { missingPrograms } from './packages.ts';
import { startApiServer } from './start-api-server.ts';
import { startControllers } from './start-controllers.ts';
import { startKwok } from './start-kwok.ts';
import { startScheduler } from './start-scheduler.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'kube-controller-manager', 'kube-scheduler', 'kwok');

test('startControllers(), startScheduler() and startKwok() give a Deployment Pods that run, and leave nothing behind', {
  skip,
  timeout: 900_000,
}, async () => {
  await using api = await startApiServer();
  const kubeconfig = await api.kubeconfig();
  const starters = [startControllers, startScheduler, startKwok];
  const programs = await Promise.all(starters.map(start => start({ kubeconfig })));
  await using stack = new AsyncDisposableStack();
  for (const program of programs) stack.use(program);
  for (const name of ['n1', 'n2']) await api.addNode(name, `10.0.0.${name.slice(1)}`);
  const labels = { app: 'a' };
  const containers = [{ name: 'a', image: 'a' }];
  await api.apply({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'a', namespace: 'default' },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { hostNetwork: true, containers } },
    },
  });
  const running = async () => {
    const path =
      '{range .items[?(@.status.phase=="Running")]}{.metadata.name} {.spec.nodeName} {.status.podIP}{end}';
    const text = await api.kubectl('get', 'pods', '-l', 'app=a', '-o', `jsonpath=${path}`);
    return text === '' ? undefined : text.split(' ');
  };
  const [pod, node, ip] = await until('a Pod that runs', running);
  assert.equal(ip, `10.0.0.${node.slice(1)}`);
  await api.kubectl('delete', 'pod', pod);
  await until('another Pod', async () => ((await running()) ?? [pod])[0] !== pod);
  await stack.disposeAsync();
  for (const { pid } of programs) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
});
