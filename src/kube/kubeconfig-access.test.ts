import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { authority } from '../../testbed/certificates.ts';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiStandIn } from '../../testbed/start-api-stand-in.ts';
import { openKubeClient } from './kube-client.ts';
import { kubeconfigFromText } from './kubeconfig-access.ts';
import { services } from './resources.ts';

const skip = missingPrograms('openssl');
const name = 'of Secret tenants/a-admin-kubeconfig';

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
  readonly others?: object;
}

function text({ cluster, user, others }: Parts = {}): string {
  return JSON.stringify({
    clusters: [{ name: 'a', cluster: { server: 'https://a.test:6443/base/', ...cluster } }],
    users: [{ name: 'a', user: { token: 'x', ...user } }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    'current-context': 'a',
    ...others,
  });
}

test('kubeconfigFromText() gives the server, the name to verify, and the token', async () => {
  const { server, serverName, basePath, headers } = await kubeconfigFromText(text(), { name }).credentials();
  assert.deepEqual(server, { host: 'a.test', port: 6443 });
  assert.equal(serverName, 'a.test');
  assert.equal(basePath, '/base');
  assert.deepEqual(headers, { Authorization: 'Bearer x' });
  const plain = await kubeconfigFromText(text({ cluster: { server: 'https://[2001:db8::1]' } }), {
    name,
  }).credentials();
  assert.deepEqual([plain.server, plain.serverName], [{ host: '2001:db8::1', port: 443 }, '2001:db8::1']);
  const other = { cluster: { 'tls-server-name': 'kubernetes.default.svc' }, user: { as: 'somebody' } };
  const more = await kubeconfigFromText(text(other), { name }).credentials();
  assert.equal(more.serverName, 'kubernetes.default.svc');
  assert.equal(more.headers['Impersonate-User'], 'somebody');
});

test('kubeconfigFromText() takes the context that it is told', async () => {
  const cluster = (server: string) => ({ server });
  const config = text({
    others: {
      clusters: [
        { name: 'a', cluster: cluster('https://a.test') },
        { name: 'b', cluster: cluster('https://b.test') },
      ],
      contexts: [
        { name: 'a', context: { cluster: 'a', user: 'a' } },
        { name: 'b', context: { cluster: 'b', user: 'a' } },
      ],
    },
  });
  const hostOf = async (context?: string) =>
    (await kubeconfigFromText(config, { name, ...(context && { context }) }).credentials()).server?.host;
  assert.equal(await hostOf(), 'a.test');
  assert.equal(await hostOf('b'), 'b.test');
  await assert.rejects(
    () => hostOf('c'),
    /^KubeAccessError: The kubeconfig of .* has no context for its context 'c'$/,
  );
});

test('kubeconfigFromText() connects with a client certificate', { skip }, async () => {
  await using api = await startApiStandIn(['127.0.0.1']);
  const own = await authority();
  const user = await own.clientCertificate({ user: 'admin' });
  const config = await kubeconfig({
    server: `https://127.0.0.1:${api.at.port}`,
    caFile: own.certFile,
    user,
  });
  using client = openKubeClient({ access: kubeconfigFromText(config, { name }) });
  assert.ok((await client.get(services, 'default', 'kubernetes')).ok);
  assert.equal(api.asked[0].user, 'admin');
});

const REFUSED: readonly (readonly [what: string, parts: Parts, message: RegExp])[] = [
  [
    'an exec plugin',
    { user: { exec: { command: 'rm' } } },
    /has credentials from exec\. Give a token or client-certificate-data instead$/,
  ],
  [
    'an auth provider',
    { user: { 'auth-provider': { name: 'oidc' } } },
    /has credentials from auth-provider\./,
  ],
  ['a token file', { user: { tokenFile: '/etc/passwd' } }, /has a tokenFile\. Give a token instead$/],
  [
    'a file of authorities',
    { cluster: { 'certificate-authority': '/etc/passwd' } },
    /names a file in certificate-authority\. Give certificate-authority-data instead$/,
  ],
  [
    'files of a client certificate',
    { user: { 'client-certificate': 'a', 'client-key': 'b' } },
    /names a file in client-certificate\./,
  ],
  [
    'no verification',
    { cluster: { 'insecure-skip-tls-verify': true } },
    /has insecure-skip-tls-verify\. Give certificate-authority-data instead$/,
  ],
  [
    'a proxy',
    { cluster: { 'proxy-url': 'http://proxy' } },
    /has a proxy-url, and proxies are not supported\./,
  ],
  [
    'groups to act as',
    { user: { 'as-groups': ['system:masters'] } },
    /has as-groups, which is not supported$/,
  ],
  [
    'no TLS',
    { cluster: { server: 'http://a.test' } },
    /must have an https:\/\/ server: current value is 'http/,
  ],
  ['no server', { cluster: { server: null } }, /must have an https:\/\/ server: current value is ''$/],
  [
    'no credentials',
    { user: { token: null } },
    /has no credentials\. Give a token or client-certificate-data$/,
  ],
  [
    'a certificate without a key',
    { user: { 'client-certificate-data': 'LS0tLS1CRUdJTiA=' } },
    /must have both/,
  ],
  [
    'no PEM',
    { cluster: { 'certificate-authority-data': 'AAAA' } },
    /has no PEM in base64 in certificate-authority-data$/,
  ],
  [
    'rubbish for a certificate',
    {
      cluster: {
        'certificate-authority-data': Buffer.from('-----BEGIN CERTIFICATE-----').toString('base64'),
      },
    },
    /has certificates that cannot be used: /,
  ],
  ['no such user', { others: { users: null } }, /has no user for its current-context 'a'$/],
  ['clusters that are no list', { others: { clusters: {} } }, /is not one: 'clusters' is no list$/],
  ['a token that is no string', { user: { token: 7 } }, /is not one: 'token' is no string$/],
];

for (const [what, parts, message] of REFUSED) {
  test(`kubeconfigFromText() refuses ${what}`, () => {
    assert.throws(() => kubeconfigFromText(text(parts), { name }), {
      code: 'ERR_KUBE_ACCESS',
      message: new RegExp(`^The kubeconfig ${name} .*${message.source}`),
    });
  });
}

test('kubeconfigFromText() refuses what is no YAML or no mapping, and says nothing of its content', () => {
  for (const secret of ['{ token: s3cret', 's3cret', '', '[s3cret]', '\u0000']) {
    assert.throws(
      () => kubeconfigFromText(secret, { name }),
      (error: Error) =>
        /^The kubeconfig of Secret .* is not /.test(error.message) && !error.message.includes('s3cret'),
    );
  }
});

test('kubeconfigFromText() needs no large library', async () => {
  const text = await readFile(new URL('./kubeconfig-access.ts', import.meta.url), 'utf8');
  assert.doesNotMatch(text, /^import .*@kubernetes/m);
});
