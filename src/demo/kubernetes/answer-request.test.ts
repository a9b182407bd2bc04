import assert from 'node:assert/strict';
import { test } from 'node:test';
import { demoClusters } from '../demo-clusters.ts';
import { type ApiAnswer, type ApiRequest, answerRequest } from './answer-request.ts';
import { smallCluster } from './small-cluster.ts';
import type { Table } from './table.ts';

const NOW = Date.parse('2026-01-02T03:04:05Z');
const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
const { state, step } = smallCluster(demoClusters[1], NOW);
step(NOW - 3000);
step(NOW - 2000);

function ask(url: string, request: Partial<ApiRequest> = {}): ApiAnswer {
  const { pathname, searchParams } = new URL(url, 'https://localhost');
  const user = { name: 'someone', groups: ['a'] };
  const whole = {
    method: 'GET',
    path: pathname,
    query: searchParams,
    accept: 'application/json',
    user,
    ...request,
  };
  return answerRequest('managed1', state, whole, NOW);
}

function body<T = Record<string, unknown>>(answer: ApiAnswer): T {
  assert.ok(answer.kind === 'object', answer.kind);
  return answer.body as T;
}

function rows(answer: ApiAnswer): (string | number)[][] {
  return body<Table>(answer).rows.map(({ cells }) => [...cells]);
}

test('answerRequest() shows an anonymous client only the version and health', () => {
  const stranger = { user: undefined };
  assert.equal(body(ask('/version', stranger)).gitVersion, 'v1.33.1+managed1');
  assert.deepEqual(ask('/readyz', stranger), { kind: 'text', text: 'ok' });
  for (const path of ['/api', '/api/v1/nodes', '/nowhere', '/healthz/etcd']) {
    const { kind, status, reason, code } = body(ask(path, stranger));
    assert.deepEqual([kind, status, reason, code], ['Status', 'Failure', 'Unauthorized', 401], path);
  }
});

test('answerRequest() returns the columns that kubectl shows for nodes', () => {
  const wide = ['<none>', 'Causeway demo', '6.1.0', 'demo://1.0'];
  assert.deepEqual(rows(ask('/api/v1/nodes?limit=500', { accept: TABLE })), [
    ['managed1-cp-0', 'Ready', 'control-plane', '12d', 'v1.33.1', '10.20.255.10', ...wide],
    ['managed1-cp-1', 'Ready', 'control-plane', '12d', 'v1.33.1', '10.20.255.11', ...wide],
    ['managed1-worker-0', 'Ready', 'worker', '12d', 'v1.33.1', '10.20.255.12', ...wide],
  ]);
});

test('answerRequest() returns the columns that kubectl shows for pods', () => {
  const table = body<Table>(ask('/api/v1/namespaces/default/pods', { accept: TABLE }));
  const names = [
    'Name',
    'Ready',
    'Status',
    'Restarts',
    'Age',
    'IP',
    'Node',
    'Nominated Node',
    'Readiness Gates',
  ];
  assert.deepEqual(
    table.columnDefinitions.map(column => (column as { name: string }).name),
    names,
  );
  const tick = table.rows.find(({ cells }) => cells[0] === 'tick-1');
  const cells = [
    'tick-1',
    '0/1',
    'ContainerCreating',
    0,
    '3s',
    '<none>',
    'managed1-worker-0',
    '<none>',
    '<none>',
  ];
  assert.ok(tick !== undefined);
  assert.deepEqual(tick.cells, cells);
  const { kind, metadata } = tick.object as { kind: string; metadata: { namespace: string } };
  assert.deepEqual([kind, metadata.namespace], ['PartialObjectMetadata', 'default']);
});

test('answerRequest() returns JSON unless a table is preferred', () => {
  for (const accept of ['', 'application/json', `application/json,${TABLE}`]) {
    const { kind, items } = body<{ kind: string; items: object[] }>(ask('/api/v1/namespaces', { accept }));
    assert.deepEqual([kind, items.length], ['NamespaceList', 4]);
  }
  assert.equal(body(ask('/api/v1/namespaces/default')).kind, 'Namespace');
  assert.equal(body(ask('/apis/apps/v1/deployments')).kind, 'DeploymentList');
});

test('answerRequest() selects by namespace, labels and fields', () => {
  const count = (url: string) => body<{ items: object[] }>(ask(url)).items.length;
  assert.equal(count('/api/v1/pods'), 9);
  assert.equal(count('/api/v1/namespaces/kube-system/pods'), 6);
  assert.equal(count('/api/v1/pods?labelSelector=app%3Dhello'), 2);
  assert.equal(count('/api/v1/pods?fieldSelector=spec.nodeName%3Dmanaged1-cp-0'), 2);
  assert.equal(count('/api/v1/namespaces/nowhere/pods'), 0);
  assert.equal(body(ask('/api/v1/pods?labelSelector=a%20in%20(b)')).code, 400);
});

test('answerRequest() returns NotFound for what does not exist', () => {
  const missing = body(ask('/api/v1/namespaces/default/pods/nope'));
  assert.deepEqual([missing.code, missing.message], [404, 'pods "nope" not found']);
  const paths = [
    '/nowhere',
    '/api/v2/pods',
    '/apis/apps/v1/pods',
    '/api/v1/namespaces/default/nodes',
    '/api/v1/pods/tick-1',
    '/api/v1/namespaces/default/pods/tick-1/exec',
    '/api/v1/nodes/managed1-cp-0/log',
    '/openapi/v3',
    '/api/v1/namespaces//pods',
    '/',
  ];
  for (const path of paths) {
    const { kind, reason, code } = body(ask(path));
    assert.deepEqual([kind, reason, code], ['Status', 'NotFound', 404], path);
  }
});

test('answerRequest() is read-only', () => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    assert.equal(body(ask('/api/v1/namespaces/default/pods/tick-1', { method })).code, 405);
});

test('answerRequest() reports the user', () => {
  const answer = ask('/apis/authentication.k8s.io/v1/selfsubjectreviews', { method: 'POST' });
  assert.deepEqual(body(answer).status, { userInfo: { username: 'someone', groups: ['a'] } });
});

test('answerRequest() lists every resource that discovery names', () => {
  const groups = body<{ groups: { versions: { groupVersion: string }[] }[] }>(ask('/apis')).groups;
  const lists = ['/api/v1', ...groups.map(({ versions }) => `/apis/${versions[0].groupVersion}`)];
  for (const list of lists) {
    const { resources } = body<{ resources: { name: string; kind: string; verbs: string[] }[] }>(ask(list));
    assert.ok(resources.length > 0, list);
    for (const { name, kind, verbs } of resources) {
      if (verbs.includes('list')) assert.equal(body(ask(`${list}/${name}`)).kind, `${kind}List`);
    }
  }
});

test('answerRequest() reads the parameters of a watch', () => {
  const watch = (query: string) => {
    const answer = ask(`/api/v1/pods?watch=true${query}`);
    assert.ok(answer.kind === 'watch', answer.kind);
    return answer;
  };
  assert.deepEqual([watch('').from, watch('&resourceVersion=0').from], [undefined, undefined]);
  assert.equal(watch('&resourceVersion=1017').from, 1017);
  assert.equal(watch('&timeoutSeconds=7').timeoutMs, 7000);
  assert.equal(watch('&timeoutSeconds=999999').timeoutMs, 30 * 60 * 1000);
  assert.equal(watch('&timeoutSeconds=nonsense').timeoutMs, 30 * 60 * 1000);
  assert.equal(ask('/api/v1/pods?watch=false').kind, 'object');
});

test('answerRequest() returns logs only of started pods', () => {
  const [pod] = body<{ items: { metadata: { name: string } }[] }>(
    ask('/api/v1/namespaces/default/pods?labelSelector=app%3Dhello'),
  ).items.map(({ metadata }) => metadata.name);
  const log = `/api/v1/namespaces/default/pods/${pod}/log`;
  assert.deepEqual(ask(log), { kind: 'log', pod, follow: false, lines: 5 });
  assert.deepEqual(ask(`${log}?follow=true&tailLines=1`), { kind: 'log', pod, follow: true, lines: 1 });
  assert.equal(body(ask('/api/v1/namespaces/default/pods/tick-1/log')).code, 400);
});
