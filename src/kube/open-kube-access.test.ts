import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { authorityOf } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiStandIn } from '../../testbed/start-api-stand-in.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { openKubeClient } from './kube-client.ts';
import { openKubeAccess } from './open-kube-access.ts';
import { services } from './resources.ts';

const skip = missingPrograms('openssl');

test('openKubeAccess() reads the files of a pod again when they change', { skip }, async () => {
  await using api = await startApiStandIn(['kubernetes.default.svc']);
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
  await using api = await startApiStandIn(['api.a.test']);
  const file = await api.kubeconfig({ server: 'https://api.a.test' });
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

test('openKubeAccess() runs the exec plugin of a kubeconfig once for as long as its credentials last', {
  skip,
}, async () => {
  await using api = await startApiStandIn(['api.a.test']);
  const file = await api.kubeconfig({ server: 'https://api.a.test' });
  const config = JSON.parse(await readFile(file, 'utf8'));
  const runs = api.dir.file('runs');
  const program = `require('fs').appendFileSync(${JSON.stringify(runs)}, '.');
    console.log(JSON.stringify({ status: { token: process.env.FROM } }))`;
  const exec = {
    command: process.execPath,
    args: ['-e', program],
    env: [{ name: 'FROM', value: 'a plugin' }],
  };
  config.users[0].user = { exec };
  await writeFile(file, JSON.stringify(config));
  using client = openKubeClient({ access: await openKubeAccess({ kubeconfig: file }), at: api.at });
  const get = () => client.get(services, 'default', 'kubernetes');
  for (const answer of [...(await Promise.all([get(), get()])), await get()]) {
    assert.ok(answer.ok, JSON.stringify(answer));
  }
  assert.deepEqual(
    new Set(api.asked.map(({ authorization }) => authorization)),
    new Set(['Bearer a plugin']),
  );
  assert.equal(await readFile(runs, 'utf8'), '.');
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
  ['has no such context', { 'current-context': 'b' }, /has no context for its current-context 'b'$/],
  ['has no such user', { users: [] }, /has no user for its current-context 'a'$/],
  ['is no kubeconfig', { clusters: [{ name: 'a' }] }, /is not one: clusters\[0\] has no 'cluster'$/],
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
    /automountServiceAccountToken: true; elsewhere give a kubeconfig$/,
  );
});

test('openKubeAccess() finds the API server of a pod in its environment', async () => {
  await using dir = await tempDir();
  await writeFile(dir.file('ca.crt'), 'ca');
  await writeFile(dir.file('token'), 'token');
  const at = async (host?: string, port?: string) => {
    const environment = { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port };
    const access = await openKubeAccess({ serviceAccount: dir.path, environment });
    const { server, serverName } = await access.credentials();
    return [server?.host, server?.port, serverName];
  };
  assert.deepEqual(await at('10.96.0.1', '443'), ['10.96.0.1', 443, '10.96.0.1']);
  // As Gardener sets it, so that a router can tell clusters apart by SNI.
  assert.deepEqual(await at('api.a.test', '8443'), ['api.a.test', 8443, 'api.a.test']);
  for (const [host, port] of [[undefined, '443'], ['10.96.0.1'], ['', '']]) {
    await assert.rejects(at(host, port), {
      code: 'ERR_KUBE_ACCESS',
      message: /^Cannot find the API server, as KUBERNETES_SERVICE_HOST .* Give a kubeconfig$/,
    });
  }
});

test('openKubeAccess() takes the context that it is told', async () => {
  await using dir = await tempDir();
  const config = {
    clusters: ['a', 'b'].map(name => ({ name, cluster: { server: `https://${name}.test` } })),
    users: [{ name: 'a', user: { token: 'x' } }],
    contexts: ['a', 'b'].map(name => ({ name, context: { cluster: name, user: 'a' } })),
    'current-context': 'a',
  };
  await writeFile(dir.file('config'), JSON.stringify(config));
  const access = await openKubeAccess({ kubeconfig: dir.file('config'), context: 'b' });
  assert.equal((await access.credentials()).serverName, 'b.test');
  await assert.rejects(
    openKubeAccess({ kubeconfig: dir.file('config'), context: 'c' }),
    /has no context for its context 'c'$/,
  );
});

test('openKubeAccess() says which file of a kubeconfig cannot be read', async () => {
  await using dir = await tempDir();
  const config = {
    clusters: [{ name: 'a', cluster: { server: 'https://a.test', 'certificate-authority': 'ca.crt' } }],
    users: [{ name: 'a', user: { token: 'x' } }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    'current-context': 'a',
  };
  await writeFile(dir.file('config'), JSON.stringify(config));
  const access = await openKubeAccess({ kubeconfig: dir.file('config') });
  await assert.rejects(access.credentials(), /names 'ca\.crt', which cannot be read: ENOENT$/);
  await writeFile(dir.file('ca.crt'), 'pem');
  assert.equal(String((await access.credentials()).ca), 'pem');
});
