import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { authority, authorityOf } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Answerer, startApiStandIn } from '../../testbed/start-api-stand-in.ts';
import type { KubeAccess } from './kube-access.ts';
import { openKubeClient } from './kube-client.ts';
import type { Lease } from './kube-object.ts';
import { openKubeAccess } from './open-kube-access.ts';
import { leases, services } from './resources.ts';

const skip = missingPrograms('openssl');

const nobody: KubeAccess = {
  credentials: async () => ({ serverName: 'api.a.test', basePath: '', headers: {} }),
};

/** A stand-in and a client to it. */
async function given(answer?: Answerer, options: Partial<Parameters<typeof openKubeClient>[0]> = {}) {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await startApiStandIn(['api.a.test'], answer));
  const kubeconfig = await api.kubeconfig({ server: 'https://api.a.test' });
  const access = await openKubeAccess({ kubeconfig });
  const client = stack.use(openKubeClient({ access, at: api.at, ...options }));
  return { api, client, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test('openKubeClient() connects where it is told and verifies the name in the kubeconfig', {
  skip,
}, async () => {
  await using api = await startApiStandIn(['api.a.test']);
  const file = await api.kubeconfig({ server: 'https://api.a.test:6443/k8s/a/' });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  assert.deepEqual(await client.get(services, 'default', 'kubernetes'), { ok: true, value: {} });
  assert.deepEqual(api.asked, [
    {
      method: 'GET',
      url: '/k8s/a/api/v1/namespaces/default/services/kubernetes',
      host: 'api.a.test:6443',
      authorization: 'Bearer secret',
      contentType: '',
      name: 'api.a.test',
      user: '',
      body: '',
    },
  ]);
});

test('openKubeClient() verifies an address, and sends no name then', { skip }, async () => {
  await using api = await startApiStandIn(['192.0.2.10']);
  const file = await api.kubeconfig({ server: 'https://192.0.2.10:6443' });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  assert.equal(api.asked[0].name, false);
});

for (const name of ['api.a.test', '192.0.2.10']) {
  test(`openKubeClient() makes calls that follow each other over one connection, to ${name}`, {
    skip,
  }, async () => {
    await using api = await startApiStandIn([name]);
    const file = await api.kubeconfig({ server: `https://${name}:6443` });
    using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
    for (let i = 0; i < 3; i++) assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
    assert.equal(api.asked.length, 3);
    assert.equal(api.connections(), 1);
  });
}

test('openKubeClient() never uses a connection that was verified for another name', { skip }, async () => {
  await using api = await startApiStandIn(['api.a.test']);
  const write = (name: string) => api.kubeconfig({ server: `https://${name}` });
  const access = await openKubeAccess({ kubeconfig: await write('api.a.test') });
  using client = openKubeClient({ access, at: api.at });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  for (const name of ['api.b.test', '192.0.2.10']) {
    await write(name);
    const answer = await client.get(services, 'default', 'kubernetes');
    assert.equal(answer.ok ? '' : answer.fault.reason, 'Untrusted');
  }
  assert.equal(api.asked.length, 1);
});

test('openKubeClient() prefers tls-server-name, and shows a client certificate', { skip }, async () => {
  await using api = await startApiStandIn(['kubernetes.default.svc']);
  const user = await (await authority()).clientCertificate({ user: 'node-1' });
  const file = await api.kubeconfig({
    server: 'https://[2001:db8::1]:6443',
    serverName: 'kubernetes.default.svc',
    user,
  });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  assert.equal(api.asked[0].user, 'node-1');
});

for (const [what, server, other] of [
  ['for another name', 'https://api.b.test', undefined],
  ['for another address', 'https://192.0.2.11', undefined],
  ['of another authority', 'https://api.a.test', 'other'],
] as const) {
  test(`openKubeClient() asks nothing of a server with a certificate ${what}`, { skip }, async () => {
    await using api = await startApiStandIn(['api.a.test', '192.0.2.10']);
    const ca = other === undefined ? api.ca : (await authorityOf(other)).certFile;
    const file = await api.kubeconfig({ server, ca });
    using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
    const answer = await client.get(services, 'default', 'kubernetes');
    assert.equal(!answer.ok && answer.fault.reason, 'Untrusted', JSON.stringify(answer));
    assert.deepEqual(api.asked, []);
  });
}

test('openKubeClient() has a fault for each way to fail, and never rejects', { skip }, async () => {
  const answers: Record<string, { status?: number; body: string } | undefined> = {
    conflict: {
      status: 409,
      body: '{"kind":"Status","reason":"Conflict","message":"the object has been modified"}',
    },
    proxy: { status: 502, body: '<html>' },
    absent: { status: 404, body: '404 page not found' },
    words: { body: 'hello' },
    silent: undefined,
  };
  await using api = await startApiStandIn(['api.a.test'], ({ url }) => answers[url.split('/').at(-1) ?? '']);
  const file = await api.kubeconfig({ server: 'https://api.a.test' });
  const access = await openKubeAccess({ kubeconfig: file });
  using client = openKubeClient({ access, at: api.at, timeoutMs: 500 });
  const faultOf = async (name: string) => {
    const answer = await client.get(services, 'default', name);
    assert.ok(!answer.ok);
    return answer.fault;
  };
  assert.deepEqual(await faultOf('conflict'), {
    status: 409,
    reason: 'Conflict',
    message: 'the object has been modified',
  });
  assert.deepEqual(await faultOf('proxy'), { status: 502, reason: 'BadAnswer', message: 'HTTP status 502' });
  assert.equal((await faultOf('absent')).reason, 'NotFound');
  assert.deepEqual(await faultOf('words'), {
    status: 200,
    reason: 'BadAnswer',
    message: 'The answer is not JSON',
  });
  assert.deepEqual(await faultOf('silent'), {
    status: 0,
    reason: 'Timeout',
    message: 'No answer within 500 ms',
  });
  await writeFile(file, 'now: rubbish');
  assert.equal((await faultOf('conflict')).reason, 'Credentials');
});

test('openKubeClient() does not wait for credentials that never come', async () => {
  const credentials = () => new Promise<never>(() => {});
  using client = openKubeClient({
    access: { credentials },
    at: { host: '127.0.0.1', port: 1 },
    timeoutMs: 50,
  });
  const answer = await client.get(services, 'default', 'kubernetes');
  assert.equal(!answer.ok && answer.fault.reason, 'Timeout');
});

test('openKubeClient() tells an address where nobody listens', { skip }, async () => {
  using client = openKubeClient({ access: nobody, at: { host: '127.0.0.1', port: 1 } });
  const answer = await client.get(services, 'default', 'kubernetes');
  assert.ok(!answer.ok);
  assert.deepEqual(answer.fault, {
    status: 0,
    reason: 'Unreachable',
    message: 'connect ECONNREFUSED 127.0.0.1:1',
  });
});

test('openKubeClient() tells of a TLS alert in words', async () => {
  // As a gateway refuses that does not reach the API server.
  const server = createServer(socket => {
    socket.once('data', () => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 80])));
    socket.on('error', () => {});
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const at = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  using client = openKubeClient({ access: nobody, at });
  const answer = await client.get(services, 'default', 'kubernetes');
  server.close();
  assert.deepEqual(!answer.ok && answer.fault, {
    status: 0,
    reason: 'Unreachable',
    message: 'The connection was refused on its way: tlsv1 alert internal error',
  });
});

test('openKubeClient() writes under our name, and deletes only the version that it means', {
  skip,
}, async () => {
  await using both = await given();
  const { api, client } = both;
  const lease: Lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'a', namespace: 'kube-system', uid: 'u', resourceVersion: '7' },
  };
  await client.create(leases, lease);
  await client.replace(leases, lease);
  await client.remove(leases, lease);
  const path = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases';
  assert.deepEqual(
    api.asked.map(({ method, url }) => `${method} ${url}`),
    [`POST ${path}?fieldManager=causeway`, `PUT ${path}/a?fieldManager=causeway`, `DELETE ${path}/a`],
  );
  assert.deepEqual(JSON.parse(api.asked[1].body), lease);
  assert.deepEqual(JSON.parse(api.asked[2].body).preconditions, { uid: 'u', resourceVersion: '7' });
});

test('openKubeClient() dials the server of its kubeconfig where it is told no other', { skip }, async () => {
  await using api = await startApiStandIn(['127.0.0.1']);
  const kubeconfig = await api.kubeconfig({ server: `https://127.0.0.1:${api.at.port}/k8s/a` });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig }) });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  assert.equal(api.asked[0].host, `127.0.0.1:${api.at.port}`);
  assert.equal(api.asked[0].url, '/k8s/a/api/v1/namespaces/default/services/kubernetes');
});

test('openKubeClient() says so where nobody says where the API server is', async () => {
  using client = openKubeClient({ access: nobody });
  const answer = await client.get(services, 'default', 'kubernetes');
  assert.match(answer.ok ? '' : answer.fault.message, /^It is not known where the API server is/);
  const end = await client.watch(
    services,
    { resourceVersion: '1', signal: new AbortController().signal },
    () => {},
  );
  assert.match('fault' in end ? end.fault.message : '', /^It is not known/);
});

test('openKubeClient() patches in the content type that says how, and applies as causeway', {
  skip,
}, async () => {
  await using both = await given();
  const { api, client } = both;
  const lease: Lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'a', namespace: 'kube-system' },
  };
  await client.apply(leases, lease);
  await client.apply(leases, lease, { force: true, subresource: 'status' });
  await client.patch(leases, 'kube-system', 'a', [{ op: 'test', path: '/a', value: 1 }]);
  await client.merge(leases, undefined, 'a', { b: null }, { subresource: 'status' });
  const path = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a';
  assert.deepEqual(
    api.asked.map(({ method, url, contentType, body }) => [method, url, contentType, body].join(' ')),
    [
      `PATCH ${path}?fieldManager=causeway&force=false application/apply-patch+yaml ${JSON.stringify(lease)}`,
      `PATCH ${path}/status?fieldManager=causeway&force=true application/apply-patch+yaml ${JSON.stringify(lease)}`,
      `PATCH ${path}?fieldManager=causeway application/json-patch+json [{"op":"test","path":"/a","value":1}]`,
      'PATCH /apis/coordination.k8s.io/v1/leases/a/status?fieldManager=causeway application/merge-patch+json {"b":null}',
    ],
  );
});

test('openKubeClient() lists page by page', { skip }, async () => {
  const pages: Record<string, string> = {
    '': '{"items":[{"metadata":{"name":"a"}}],"metadata":{"continue":"x/y"}}',
    'x/y': '{"items":[{"metadata":{"name":"b"}}],"metadata":{"resourceVersion":"7"}}',
  };
  await using both = await given(({ url }) => {
    const query = queryOf(url);
    assert.equal(query.get('labelSelector'), 'a=b,c=d');
    assert.equal(query.get('fieldSelector'), 'metadata.name!=x');
    return { body: pages[query.get('continue') ?? ''] };
  });
  const answer = await both.client.list(leases, {
    namespace: 'kube-system',
    labelSelector: 'a=b,c=d',
    fieldSelector: 'metadata.name!=x',
    keep: ({ kind, metadata }) => `${kind} ${metadata.name}`,
  });
  assert.deepEqual(answer, { ok: true, value: { items: ['Lease a', 'Lease b'], resourceVersion: '7' } });
});

test('openKubeClient() starts a list again, once, whose moment is forgotten between two pages', {
  skip,
}, async () => {
  let lists = 0;
  let forgetful = 1;
  const first = '{"items":[{"metadata":{"name":"a"}}],"metadata":{"continue":"x"}}';
  await using both = await given(({ url }) => {
    if (queryOf(url).get('continue') === null) lists++;
    else if (lists <= forgetful) return { status: 410, body: '{"reason":"Expired"}' };
    return { body: queryOf(url).get('continue') === null ? first : '{"metadata":{"resourceVersion":"9"}}' };
  });
  const answer = await both.client.list(leases, { keep: ({ metadata }) => metadata.name });
  assert.deepEqual(answer, { ok: true, value: { items: ['a'], resourceVersion: '9' } });
  assert.equal(lists, 2);
  forgetful = 4;
  const failed = await both.client.list(leases, {});
  assert.equal(!failed.ok && failed.fault.status, 410);
  assert.equal(lists, 4);
});

test('openKubeClient() asks for a page that is too large in smaller ones', { skip }, async () => {
  const limits: string[] = [];
  const large = JSON.stringify({ items: [{ data: 'x'.repeat(33 * 1024 * 1024) }] });
  await using both = await given(({ url }) => {
    const limit = queryOf(url).get('limit') ?? '';
    limits.push(limit);
    return { body: Number(limit) > 100 ? large : '{"items":[{"metadata":{"name":"a"}}]}' };
  });
  const answer = await both.client.list(leases, { keep: ({ metadata }) => metadata.name });
  assert.deepEqual(answer.ok && answer.value.items, ['a']);
  assert.deepEqual(limits, ['500', '125', '31']);
});

test('openKubeClient() has a fault for an object that is too large', { skip }, async () => {
  await using both = await given(() => ({ body: `"${'x'.repeat(17 * 1024 * 1024)}"` }));
  const answer = await both.client.get(services, 'default', 'kubernetes');
  assert.equal(!answer.ok && answer.fault.reason, 'TooLarge');
});

test('openKubeClient() ends a list with its signal', { skip }, async () => {
  const end = new AbortController();
  await using both = await given(() => {
    end.abort();
    return undefined;
  });
  const answer = await both.client.list(services, { signal: end.signal });
  assert.equal(answer.ok, false);
});

test('openKubeClient() discovers a group, the preferred version first, without subresources', {
  skip,
}, async () => {
  const resource = { name: 'as', kind: 'A', namespaced: true, verbs: ['get'] };
  const bodies: Record<string, object> = {
    '/apis/a.test': {
      versions: [{ version: 'v1' }, { version: 'v2' }, { version: 'gone' }],
      preferredVersion: { version: 'v2' },
    },
    '/apis/a.test/v1': { resources: [resource, { ...resource, name: 'as/status' }] },
    '/apis/a.test/v2': {},
    '/api': { versions: ['v1'] },
    '/api/v1': { resources: [] },
  };
  await using both = await given(({ url }) =>
    url in bodies ? { body: JSON.stringify(bodies[url]) } : { status: 404, body: '404 page not found' },
  );
  const { client } = both;
  const as = { plural: 'as', kind: 'A', namespaced: true, verbs: ['get'] };
  assert.deepEqual(await client.discover('a.test'), {
    ok: true,
    value: {
      versions: [
        { version: 'v2', resources: [] },
        { version: 'v1', resources: [as] },
      ],
    },
  });
  assert.deepEqual(await client.discover(''), {
    ok: true,
    value: { versions: [{ version: 'v1', resources: [] }] },
  });
  const absent = await client.discover('b.test');
  assert.equal(!absent.ok && absent.fault.reason, 'NotFound');
});

function queryOf(url: string): URLSearchParams {
  return new URL(url, 'https://api.a.test').searchParams;
}

test('openKubeClient() ends a call whose answer stops in the middle, or is cut there', { skip }, async () => {
  await using both = await given(
    ({ url }, response) => {
      response.write('{"half":', () => {
        if (url.endsWith('cut')) response.socket?.destroy();
      });
      return undefined;
    },
    { timeoutMs: 500 },
  );
  for (const [name, reason] of [
    ['stalled', 'Timeout'],
    ['cut', 'Unreachable'],
  ]) {
    const answer = await both.client.get(services, 'default', name);
    assert.equal(answer.ok ? '' : answer.fault.reason, reason);
  }
});
