import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { Report } from './check.ts';
import { checkTenantAgents } from './check-tenant-agents.ts';

function pod(name: string, labels: Readonly<Record<string, string>>, ready: string): KubeObject {
  const status = { phase: 'Running', conditions: [{ type: 'Ready', status: ready }] };
  const metadata = { name, namespace: 'kube-system', labels };
  return { apiVersion: 'v1', kind: 'Pod', metadata, status } as KubeObject;
}
const agent = (name: string, ready = 'True') =>
  pod(name, { 'app.kubernetes.io/name': 'causeway-agent' }, ready);
const steward = (name: string, ready = 'True') => pod(name, { app: 'steward-tcp-proxy' }, ready);
const secret: KubeObject = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'steward-tcp-proxy-tls', namespace: 'kube-system' },
};

async function found(...objects: readonly KubeObject[]) {
  const api = memoryStore(...objects).client();
  const report = new Report('a');
  const tenant = { from: '', server: undefined, ca: undefined, problem: undefined, api };
  const { hasStewards } = await checkTenantAgents(tenant, { outputs: [] }, report);
  return [hasStewards, ...report.checks.map(({ status, code }) => `${status} ${code}`)];
}

test('checkTenantAgents() fails where no agent is ready, and warns where one of several is not', async () => {
  assert.deepEqual(await found(agent('a'), agent('b')), [false, 'ok Ok']);
  assert.deepEqual(await found(agent('a'), agent('b', 'False')), [false, 'warn AgentNotReady']);
  assert.deepEqual(await found(agent('a', 'False')), [false, 'fail AgentNotReady']);
  assert.deepEqual(await found(), [false]);
});

test("checkTenantAgents() looks at Steward's tcp-proxy and its Secret, where that does the work", async () => {
  assert.deepEqual(await found(steward('a'), secret), [true, 'ok Ok']);
  assert.deepEqual(await found(steward('a', 'False'), secret), [true, 'fail AgentNotReady']);
  assert.deepEqual(await found(steward('a')), [true, 'ok Ok', 'fail AgentSecretMissing']);
});
