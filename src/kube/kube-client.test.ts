import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, createServer as netServer } from 'node:net';
import { test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { authority, authorityOf, type Certificate } from '../../testbed/certificates.ts';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { openKubeAccess } from './kube-access.ts';
import { leases, services } from './kube-api.ts';
import { openKubeClient } from './kube-client.ts';
import type { Lease } from './kube-object.ts';

const skip = missingPrograms('openssl');

interface Asked {
  readonly method: string;
  readonly url: string;
  readonly host: string;
  readonly authorization: string;
  /** SNI. */
  readonly name: string | false;
  readonly user: string;
  readonly body: string;
}

type Reply = (asked: Asked) => { status?: number; body: string } | undefined;

/** An API server stand-in that asks for client certificates, on an address that no kubeconfig names. */
async function given(names: readonly [string, ...string[]], reply: Reply = () => ({ body: '{}' })) {
  const own = await authority();
  const { certFile, keyFile } = await own.certificateFor(...names);
  const [cert, key, ca] = await Promise.all([certFile, keyFile, own.certFile].map(file => readFile(file)));
  const asked: Asked[] = [];
  const server = createServer(
    { cert, key, ca, requestCert: true, rejectUnauthorized: false },
    async (request, response) => {
      const socket = request.socket as TLSSocket;
      const seen: Asked = {
        method: request.method ?? '',
        url: request.url ?? '',
        host: request.headers.host ?? '',
        authorization: request.headers.authorization ?? '',
        name: socket.servername ?? false,
        user: String(socket.getPeerCertificate().subject?.CN ?? ''),
        body: await bodyOf(request),
      };
      asked.push(seen);
      const answer = reply(seen);
      if (answer === undefined) return;
      response.writeHead(answer.status ?? 200, { 'Content-Type': 'application/json' }).end(answer.body);
    },
  );
  let connections = 0;
  server.on('secureConnection', () => void connections++);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const dir = await tempDir();
  return {
    asked,
    connections: () => connections,
    dir,
    ca: own.certFile,
    at: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
      await dir[Symbol.asyncDispose]();
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request) body += chunk;
  return body;
}

async function writeKubeconfig(
  dir: TempDir,
  options: { server: string; ca: string; serverName?: string; user?: Certificate },
): Promise<string> {
  const { server, ca, serverName, user = { token: 'secret' } } = options;
  await writeFile(dir.file('config'), await kubeconfig({ server, caFile: ca, serverName, user }));
  return dir.file('config');
}

test('openKubeClient() connects where it is told and verifies the name in the kubeconfig', {
  skip,
}, async () => {
  await using api = await given(['api.a.test']);
  const file = await writeKubeconfig(api.dir, { server: 'https://api.a.test:6443/k8s/a/', ca: api.ca });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  assert.deepEqual(await client.get(services, 'default', 'kubernetes'), { ok: true, value: {} });
  assert.deepEqual(api.asked, [
    {
      method: 'GET',
      url: '/k8s/a/api/v1/namespaces/default/services/kubernetes',
      host: 'api.a.test',
      authorization: 'Bearer secret',
      name: 'api.a.test',
      user: '',
      body: '',
    },
  ]);
});

test('openKubeClient() verifies an address, and sends no name then', { skip }, async () => {
  await using api = await given(['192.0.2.10']);
  const file = await writeKubeconfig(api.dir, { server: 'https://192.0.2.10:6443', ca: api.ca });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  assert.equal(api.asked[0].name, false);
});

for (const name of ['api.a.test', '192.0.2.10']) {
  test(`openKubeClient() makes calls that follow each other over one connection, to ${name}`, {
    skip,
  }, async () => {
    await using api = await given([name]);
    const file = await writeKubeconfig(api.dir, { server: `https://${name}:6443`, ca: api.ca });
    using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
    for (let i = 0; i < 3; i++) assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
    assert.equal(api.asked.length, 3);
    assert.equal(api.connections(), 1);
  });
}

test('openKubeClient() never uses a connection that was verified for another name', { skip }, async () => {
  await using api = await given(['api.a.test']);
  const write = (name: string) => writeKubeconfig(api.dir, { server: `https://${name}`, ca: api.ca });
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
  await using api = await given(['kubernetes.default.svc']);
  const user = await (await authority()).clientCertificate({ user: 'node-1' });
  const file = await writeKubeconfig(api.dir, {
    server: 'https://[2001:db8::1]:6443',
    ca: api.ca,
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
    await using api = await given(['api.a.test', '192.0.2.10']);
    const ca = other === undefined ? api.ca : (await authorityOf(other)).certFile;
    const file = await writeKubeconfig(api.dir, { server, ca });
    using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
    const answer = await client.get(services, 'default', 'kubernetes');
    assert.equal(!answer.ok && answer.fault.reason, 'Untrusted', JSON.stringify(answer));
    assert.deepEqual(api.asked, []);
  });
}

test('openKubeAccess() reads the files of a pod again when they change', { skip }, async () => {
  await using api = await given(['kubernetes.default.svc']);
  const serviceAccount = api.dir.file('account');
  await mkdir(serviceAccount);
  await writeFile(`${serviceAccount}/ca.crt`, await readFile(api.ca));
  await writeFile(`${serviceAccount}/token`, 'first\n');
  using client = openKubeClient({ access: await openKubeAccess({ serviceAccount }), at: api.at });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  await writeFile(`${serviceAccount}/token`, 'second');
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  assert.deepEqual(
    api.asked.map(({ authorization }) => authorization),
    ['Bearer first', 'Bearer second'],
  );
  await writeFile(`${serviceAccount}/ca.crt`, await readFile((await authorityOf('other')).certFile));
  const answer = await client.get(services, 'default', 'kubernetes');
  assert.equal(!answer.ok && answer.fault.reason, 'Untrusted');
});

test('openKubeAccess() reads a kubeconfig again when it changes, and its tokenFile from its folder', {
  skip,
}, async () => {
  await using api = await given(['api.a.test']);
  const file = await writeKubeconfig(api.dir, { server: 'https://api.a.test', ca: api.ca });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  const config = JSON.parse(await readFile(file, 'utf8'));
  config.users[0].user = { tokenFile: 'token', token: 'not this one' };
  await writeFile(api.dir.file('token'), 'from a file\n');
  await writeFile(file, JSON.stringify(config));
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  assert.deepEqual(
    api.asked.map(({ authorization }) => authorization),
    ['Bearer secret', 'Bearer from a file'],
  );
});

test('openKubeAccess() runs the exec plugin of a kubeconfig', { skip }, async () => {
  await using api = await given(['api.a.test']);
  const file = await writeKubeconfig(api.dir, { server: 'https://api.a.test', ca: api.ca });
  const config = JSON.parse(await readFile(file, 'utf8'));
  const program = `console.log(JSON.stringify({ status: { token: process.env.FROM } }))`;
  const exec = {
    command: process.execPath,
    args: ['-e', program],
    env: [{ name: 'FROM', value: 'a plugin' }],
  };
  config.users[0].user = { exec };
  await writeFile(file, JSON.stringify(config));
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  const answer = await client.get(services, 'default', 'kubernetes');
  assert.ok(answer.ok, JSON.stringify(answer));
  assert.equal(api.asked[0].authorization, 'Bearer a plugin');
});

for (const [what, change, message] of [
  [
    'skips verification',
    { clusters: [{ name: 'a', cluster: { server: 'https://a.test', 'insecure-skip-tls-verify': true } }] },
    /insecure-skip-tls-verify\. Give certificate-authority-data instead$/,
  ],
  [
    'has no TLS',
    { clusters: [{ name: 'a', cluster: { server: 'http://a.test' } }] },
    /must have an https:\/\/ server: current value is 'http:\/\/a\.test'$/,
  ],
  ['has no such context', { 'current-context': 'b' }, /has no cluster for its current-context 'b'$/],
  ['has no such user', { users: [] }, /has no user for its current-context 'a'$/],
  ['is no kubeconfig', { clusters: [{ name: 'a' }] }, /is not one: clusters\[0\]\.cluster is missing$/],
] as const) {
  test(`openKubeAccess() refuses a kubeconfig that ${what}`, async () => {
    await using dir = await tempDir();
    const sound = {
      clusters: [{ name: 'a', cluster: { server: 'https://a.test' } }],
      users: [{ name: 'a', user: { token: 'x' } }],
      contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
      'current-context': 'a',
    };
    await writeFile(dir.file('config'), JSON.stringify({ ...sound, ...change }));
    await assert.rejects(openKubeAccess({ kubeconfig: dir.file('config') }), {
      code: 'ERR_KUBE_ACCESS',
      message,
    });
  });
}

test('openKubeAccess() says what to do where there are no files', async () => {
  await using dir = await tempDir();
  await assert.rejects(
    openKubeAccess({ kubeconfig: dir.file('none') }),
    /The kubeconfig '.*none' cannot be read: ENOENT$/,
  );
  await assert.rejects(
    openKubeAccess({ serviceAccount: dir.path }),
    /automountServiceAccountToken: true; elsewhere give --kubeconfig$/,
  );
});

test('openKubeClient() has a fault for each way to fail, and never rejects', { skip }, async () => {
  await using dir = await tempDir();
  const file = await writeKubeconfig(dir, { server: 'https://api.a.test', ca: (await authority()).certFile });
  const access = await openKubeAccess({ kubeconfig: file });
  const answers: Record<string, { status?: number; body: string } | undefined> = {
    conflict: {
      status: 409,
      body: '{"kind":"Status","reason":"Conflict","message":"the object has been modified"}',
    },
    proxy: { status: 502, body: '<html>' },
    words: { body: 'hello' },
    silent: undefined,
  };
  await using api = await given(['api.a.test'], ({ url }) => answers[url.split('/').at(-1) ?? '']);
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
  await using dir = await tempDir();
  const file = await writeKubeconfig(dir, { server: 'https://api.a.test', ca: (await authority()).certFile });
  using client = openKubeClient({
    access: await openKubeAccess({ kubeconfig: file }),
    at: { host: '127.0.0.1', port: 1 },
  });
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
  const server = netServer(socket => {
    socket.once('data', () => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 80])));
    socket.on('error', () => {});
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const credentials = async () => ({ serverName: 'api.a.test', basePath: '', headers: {} });
  const at = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  using client = openKubeClient({ access: { credentials }, at });
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
  await using api = await given(['api.a.test']);
  const file = await writeKubeconfig(api.dir, { server: 'https://api.a.test', ca: api.ca });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
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

test('openKubeClient() lists page by page', { skip }, async () => {
  const pages: Record<string, string> = {
    '': '{"items":[{"metadata":{"name":"a"}}],"metadata":{"continue":"x/y"}}',
    'x/y': '{"items":[{"metadata":{"name":"b"}}],"metadata":{}}',
  };
  await using api = await given(['api.a.test'], ({ url }) => {
    const query = new URL(url, 'https://api.a.test').searchParams;
    assert.equal(query.get('labelSelector'), 'a=b,c=d');
    return { body: pages[query.get('continue') ?? ''] };
  });
  const file = await writeKubeconfig(api.dir, { server: 'https://api.a.test', ca: api.ca });
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  const answer = await client.list(leases, { namespace: 'kube-system', labelSelector: 'a=b,c=d' });
  assert.deepEqual(answer.ok && answer.value.map(({ metadata }) => metadata.name), ['a', 'b']);
});
