// Who may make changes, and the admin listener over TLS.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { Agent, get as getHttps } from 'node:https';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { as, ask, changing } from './ask-admin.ts';
import { until } from './given.ts';

let gateway: Causeway;
let dir: TempDir;
const stack = new AsyncDisposableStack();

before(async () => {
  dir = stack.use(await tempDir());
  await writeFile(dir.file('admin.password'), 'open sesame\n');
  await writeFile(dir.file('viewer.password'), 'only looking\n');
  gateway = stack.use(
    await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
workers: 1
timeouts: { drain: 1h }
admin:
  on: "127.0.0.1:0"
  hosts: [gw.test]
  auth:
    - { username: admin, passwordFile: ${dir.file('admin.password')} }
    - { username: viewer, passwordFile: ${dir.file('viewer.password')}, role: viewer }
`,
    }),
  );
});

after(() => stack.disposeAsync());

const admin = as('admin', 'open sesame');
const viewer = as('viewer', 'only looking');

/** An id that is never open: 404 means that the change was allowed. */
const end = (headers: Readonly<Record<string, string>>) =>
  ask(gateway, '/api/v1/connections/0-0-0-0', { method: 'DELETE', headers });

test('viewers who leave while their password is read take no place among the event streams', async () => {
  const url = new URL('/api/v1/events', gateway.admin);
  for (let sent = 0; sent < 200; sent++) {
    const request = get(url, { headers: viewer, agent: false });
    request.on('error', () => {});
    const [socket] = (await once(request, 'socket')) as [Socket];
    await once(socket, 'connect');
    // At different moments: before the request is read, while the password is, and after.
    for (let turn = 0; turn < sent % 8; turn++) await new Promise(resolve => setImmediate(resolve));
    socket.resetAndDestroy();
  }
  await until('a stream', async () => {
    const response = await fetch(url, { headers: viewer });
    await response.body?.cancel();
    return response.status === 200;
  });
});

describe('a change', () => {
  for (const [what, headers, status] of [
    ['by an admin', { ...admin, ...changing }, 404],
    ['by an admin, with a charset', { ...admin, 'Content-Type': 'application/json; charset=utf-8' }, 404],
    ['by nobody', changing, 401],
    ['with a wrong password', { ...as('admin', 'only looking'), ...changing }, 401],
    ['by a viewer', { ...viewer, ...changing }, 403],
    ['without a content type', admin, 415],
    ['as a form sends it', { ...admin, 'Content-Type': 'text/plain' }, 415],
    ['from a page of another site', { ...admin, ...changing, Origin: 'http://evil.test' }, 403],
    ['from a sandboxed page', { ...admin, ...changing, Origin: 'null' }, 403],
    [
      'from a page of ours',
      { ...admin, ...changing, Host: 'gw.test:9440', Origin: 'http://gw.test:9440' },
      404,
    ],
    ['from another port', { ...admin, ...changing, Host: 'gw.test:9440', Origin: 'http://gw.test' }, 403],
    ['to a foreign Host', { ...admin, ...changing, Host: 'evil.test' }, 421],
  ] as const) {
    test(`${what}: ${status}`, async () => {
      const answer = await end(headers);
      assert.equal(answer.status, status);
      assert.equal(typeof answer.json.error, 'string');
    });
  }

  test('that is refused changes nothing', async () => {
    for (const headers of [
      { ...viewer, ...changing },
      admin,
      { ...admin, ...changing, Origin: 'http://a.b' },
    ])
      assert.notEqual((await ask(gateway, '/api/v1/drain', { method: 'POST', headers })).status, 202);
    assert.equal((await ask(gateway, '/readyz')).status, 200);
  });
});

test('a viewer sees everything', async () => {
  const paths = [
    '/metrics',
    '/api/v1/status',
    '/api/v1/clusters',
    '/api/v1/connections',
    '/api/v1/explain?host=a',
  ];
  for (const path of paths) {
    assert.equal((await ask(gateway, path, { headers: viewer })).status, 200, path);
    assert.equal((await ask(gateway, path)).status, 401, path);
  }
  for (const path of ['/nowhere', '/api/v1/drain']) assert.equal((await ask(gateway, path)).status, 401);
});

test('a source that guesses passwords is slowed, and no other', async () => {
  const from = '127.0.0.66';
  const guess = (password: string) =>
    ask(gateway, '/api/v1/status', { headers: as('admin', password), from });
  const answers = await Promise.all(Array.from({ length: 60 }, (_, index) => guess(`guess ${index}`)));
  const refused = answers.filter(({ status }) => status === 429);
  assert.equal(answers.filter(({ status }) => status === 401).length + refused.length, 60);
  assert.ok(refused.length > 20, `only ${refused.length} of 60 were refused unchecked`);
  assert.ok(Number(refused[0].headers['retry-after']) >= 1);
  assert.match(refused[0].json.error, /^Too many wrong passwords from this address; try again in \d+ s$/);
  const line = await gateway.line(({ msg }) => msg === 'wrong passwords are slowed');
  assert.equal(line.address, from);
  // Other sources, and requests that need no password.
  for (let round = 0; round < 20; round++) {
    assert.equal((await ask(gateway, '/api/v1/status', { headers: admin })).status, 200);
  }
  assert.equal((await ask(gateway, '/readyz', { from })).status, 200);
});

test('a missing password file is reported at the start, and used once it exists', async () => {
  await using folder = await tempDir();
  const file = folder.file('late.password');
  await using late = await startCauseway({
    config: `
listen: ["127.0.0.1:0"]
workers: 1
admin: { on: "127.0.0.1:0", auth: { username: ann, passwordFile: ${file} } }
`,
  });
  const reported = late.lines().find(({ msg }) => String(msg).startsWith('password file cannot be used'));
  assert.deepEqual(
    [reported?.level, reported?.username, reported?.file, reported?.error],
    ['warn', 'ann', file, 'there is no such file'],
  );
  const headers = as('ann', 'open sesame');
  assert.equal((await ask(late, '/api/v1/status', { headers })).status, 401);
  await writeFile(file, 'open sesame\n');
  assert.equal((await ask(late, '/api/v1/status', { headers })).status, 200);
});

test('without auth, on loopback, changes follow the same rules', async () => {
  await using open = await startCauseway({ config: 'listen: ["127.0.0.1:0"]\nworkers: 1\n' });
  const change = (headers: Readonly<Record<string, string>>) =>
    ask(open, '/api/v1/connections/0-0-0-0', { method: 'DELETE', headers });
  assert.equal((await change({})).status, 415);
  assert.equal((await change({ ...changing, Origin: 'http://evil.test' })).status, 403);
  assert.equal((await change(changing)).status, 404);
});

describe('TLS', { skip: missingPrograms('openssl') }, () => {
  /** Relative paths are relative to the file. */
  async function put(folder: string, ...names: readonly [string, ...string[]]): Promise<void> {
    const { certFile, keyFile } = await certificateFor(...names);
    await copyFile(certFile, join(folder, 'tls.crt'));
    await copyFile(keyFile, join(folder, 'tls.key'));
  }

  const config = (certFile: string, keyFile: string) => `
listen: ["127.0.0.1:0"]
workers: 1
admin: { on: "127.0.0.1:0", tls: { certFile: ${certFile}, keyFile: ${keyFile} } }
`;

  const serialNumber = (port: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connectTls({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate().serialNumber);
        socket.destroy();
      });
      socket.on('error', reject);
    });

  test('serves https, and reloads the pair without dropping a connection', async () => {
    await using folder = await tempDir();
    await put(folder.path, '127.0.0.1', 'localhost');
    await using secure = await startCauseway({
      config: config(folder.file('tls.crt'), folder.file('tls.key')),
    });
    assert.match(secure.admin, /^https:\/\/127\.0\.0\.1:\d+$/);
    const ca = await readFile((await authority()).certFile, 'utf8');
    assert.equal((await ask(secure, '/healthz', { ca })).body, 'ok');
    assert.equal((await ask(secure, '/api/v1/status', { ca })).json.workers, 1);
    const { port } = new URL(secure.admin);
    const before = await serialNumber(port);
    const agent = new Agent({ keepAlive: true, ca, maxSockets: 1 });
    const kept = () =>
      new Promise<[status: number | undefined, localPort: number | undefined]>((resolve, reject) => {
        getHttps(new URL('/healthz', secure.admin), { agent }, response => {
          const localPort = response.socket.localPort;
          response.resume().on('end', () => resolve([response.statusCode, localPort]));
        }).on('error', reject);
      });
    const [, localPort] = await kept();
    await put(folder.path, 'localhost', '127.0.0.1');
    await secure.line(line => line.msg === 'certificate of the admin side renewed');
    const renewed = await serialNumber(port);
    assert.notEqual(renewed, before);
    assert.deepEqual(await kept(), [200, localPort]);
    agent.destroy();
    await writeFile(folder.file('tls.key'), 'broken');
    const { error } = await secure.line(
      line => line.msg === 'new certificate of the admin side refused; keeping the previous one',
    );
    assert.match(String(error), /^keyFile: must contain a private key in PEM format/);
    assert.equal(await serialNumber(port), renewed);
  });

  test('cleartext is closed, and others are unaffected', async () => {
    await using folder = await tempDir();
    await put(folder.path, '127.0.0.1');
    await using secure = await startCauseway({
      config: config(folder.file('tls.crt'), folder.file('tls.key')),
    });
    await assert.rejects(ask({ admin: secure.admin.replace('https', 'http') }, '/healthz'));
    const ca = await readFile((await authority()).certFile, 'utf8');
    assert.equal((await ask(secure, '/healthz', { ca })).status, 200);
  });

  for (const [what, certFile, keyFile, reported] of [
    ['a missing certificate', 'none.crt', 'tls.key', /admin\.tls\.certFile: cannot be read: .*none\.crt/],
    ['a key of another', 'tls.crt', 'other.key', /admin\.tls\.keyFile: must be the key of the certificate/],
    ['a file that is no key', 'tls.crt', 'causeway.yaml', /admin\.tls\.keyFile: must contain a private key/],
  ] as const) {
    test(`${what} at the start: exit 1 with a message`, async () => {
      await using folder = await tempDir();
      await put(folder.path, '127.0.0.1');
      await copyFile((await certificateFor('other.test')).keyFile, folder.file('other.key'));
      await writeFile(folder.file('causeway.yaml'), config(certFile, keyFile));
      const { code, stdout, stderr } = await run(causewayBin, ['run', '-c', folder.file('causeway.yaml')]);
      assert.equal(code, 1, stderr);
      assert.match(stderr, reported);
      assert.equal(stderr.trim().split('\n').length, 1);
      assert.equal(String(stdout), '');
    });
  }

  test('relative paths are relative to the file', async () => {
    await using folder = await tempDir();
    await put(folder.path, '127.0.0.1');
    await writeFile(folder.file('causeway.yaml'), config('./tls.crt', 'tls.key'));
    const { code, stdout } = await run(causewayBin, ['check', '-c', folder.file('causeway.yaml')]);
    assert.deepEqual([code, String(stdout)], [0, 'ok: 0 clusters, 0 routes, 0 hosts\n']);
    // startCauseway() writes its file elsewhere, so this gateway is started directly.
    await using program = await startProgram({
      command: causewayBin,
      args: ['run', '-c', folder.file('causeway.yaml')],
      ready: { log: /"msg":"ready"/ },
      stopSignal: 'SIGTERM',
    });
    await until('an https URL', () => /"admin":"https:/.test(program.log()));
  });
});
