import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { run } from '../../testbed/run.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

const CAUSEWAY = fileURLToPath(new URL('../../bin/causeway', import.meta.url));

async function render(yaml: string, ...args: readonly string[]) {
  await using dir = await tempDir();
  const file = dir.file('causeway.yaml');
  await writeFile(file, yaml);
  const { code, stdout, stderr } = await run(CAUSEWAY, ['render', ...args, '-c', file]);
  return { code, stdout: stdout.toString(), stderr: stderr.replaceAll(file, 'FILE') };
}

test('causeway render rbac prints YAML documents, and only those', async () => {
  const yaml = 'listen: [":1"]\nsources: [kamaji: { namespaces: ["a"] }]\noutputs: [tenantAgent: {}]';
  const { code, stdout, stderr } = await render(yaml, 'rbac');
  assert.deepEqual([code, stderr], [0, '']);
  const kinds = parseAllDocuments(stdout).map(document => document.toJS().kind);
  const pair = ['Role', 'RoleBinding'];
  assert.deepEqual(kinds, ['ClusterRole', 'ClusterRoleBinding', ...pair, ...pair]);
  assert.match(stdout, /^# secrets: get covers every Secret of its namespaces/m);
});

test('causeway render rbac says that a file needs no permissions', async () => {
  assert.deepEqual(await render('listen: [":1"]', 'rbac'), {
    code: 0,
    stdout: '',
    stderr: 'FILE: no permissions are needed: it has neither sources nor outputs in Kubernetes\n',
  });
});

test('causeway render reports mistakes in the file', async () => {
  const { code, stdout, stderr } = await render('listen: [":1"]\nsources: [kamji: {}]', 'rbac');
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^FILE:2:11: sources\[0\]: unknown key "kamji"; did you mean "kamaji"/);
});

test('causeway render dns says what is not among its records', async () => {
  const dns = ['dns', '--format', 'hosts', '--address', '192.0.2.1'];
  assert.deepEqual(await render('listen: [":1"]', ...dns), {
    code: 1,
    stdout: '',
    stderr: 'FILE: no cluster has a host, so there is nothing to name\n',
  });
  const cluster = 'clusters: [{ name: a, api: { hosts: [a.test], backends: ["192.0.2.9:1"] } }]';
  assert.deepEqual(await render(`listen: [":1"]\nsources: [{ kamaji: {} }]\n${cluster}`, ...dns), {
    code: 0,
    stdout: '192.0.2.1 a.test\n',
    stderr: 'FILE: hosts of clusters that its sources bring are not among these records\n',
  });
});

test('causeway render prints objects on stdout, and what is left out on stderr', async () => {
  const yaml = `listen: [":1"]
clusters: [{ name: a, id: x, api: { hosts: [a.test], backends: ["192.0.2.9:1"] } }]`;
  const { code, stdout, stderr } = await render(yaml, 'ingress', '--flavor', 'nginx', '-n', 'edge');
  assert.equal(code, 0);
  const objects = parseAllDocuments(stdout).map(document => document.toJS());
  assert.deepEqual(
    objects.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`),
    ['Service edge/a-api', 'EndpointSlice edge/a-api-ipv4', 'Ingress edge/a'],
  );
  assert.equal(
    stderr,
    `FILE: cluster 'a': agents cannot name it by its id: only causeway knows ids
FILE: health checks, balance, timeouts and retries are those of the controller
`,
  );
  const nothing = await render('listen: [":1"]', 'tls-route');
  assert.deepEqual([nothing.code, nothing.stdout], [1, '']);
  assert.match(
    nothing.stderr,
    /FILE: nothing to apply: no cluster has a host and backends that tls-route can/,
  );
});

test('causeway render lets its reader leave early', async () => {
  await using dir = await tempDir();
  const clusters = Array.from(
    { length: 2000 },
    (_, i) => `  - { name: t${i}, api: { hosts: [t${i}.test], backends: ["192.0.2.9:1"] } }`,
  );
  await writeFile(dir.file('causeway.yaml'), `listen: [":1"]\nclusters:\n${clusters.join('\n')}\n`);
  const script = '"$0" render ingress -c "$1" | head -n 1';
  const { code, stdout, stderr } = await run('bash', [
    '-o',
    'pipefail',
    '-c',
    script,
    CAUSEWAY,
    dir.file('causeway.yaml'),
  ]);
  assert.deepEqual([code, stdout.toString()], [0, '---\n']);
  assert.doesNotMatch(stderr, /EPIPE|Error/);
});

test('causeway render dns-endpoint takes the addresses of the gateway from the file where it has them', async () => {
  const cluster = 'clusters: [{ name: a, api: { hosts: [a.test], backends: ["192.0.2.9:1"] } }]';
  const { stdout } = await render(`listen: ["192.0.2.1:443"]\n${cluster}`, 'dns-endpoint');
  assert.deepEqual(parseAllDocuments(stdout)[0].toJS().spec.endpoints[0].targets, ['192.0.2.1']);
  const { code, stderr } = await render(`listen: [":443"]\n${cluster}`, 'dns-endpoint');
  assert.equal(code, 64);
  assert.match(stderr, /--address is missing: the address of the gateway, to which the hosts lead/);
});

for (const [args, message] of [
  [[], /^causeway: Name a target: haproxy, ingress, ingress-route-tcp, tls-route, /],
  [['ingress', '--flavor', 'ngnix'], /Unknown --flavor 'ngnix': did you mean nginx\?/],
  [['ingress', '--flavor', 'fromCluster'], /Unknown --flavor 'fromCluster': one of haproxy, /],
  [['ingress', '--gateway', 'x'], /--gateway is for causeway render tls-route/],
  [['ingress', '--address', '192.0.2.1'], /--address is for causeway render dns, dns-endpoint/],
  [['ingress', '--format', 'bind'], /--format is for causeway render dns/],
  [['rbac', '-n', 'x'], /--namespace is for causeway render ingress, ingress-route-tcp, /],
  [['tls-route', '-n', 'No Name'], /--namespace must be the name of a namespace: No Name/],
  [['tls-route', '--gateway', 'a/b/c'], /--gateway must be NAME or NAMESPACE\/NAME: a\/b\/c/],
  [['tls-route', '--api-version', 'v2'], /Unknown --api-version 'v2'/],
  [['ingress-route-tcp', '--entry-point', 'a b'], /--entry-point must be the name of an entry point/],
  [['transport-server', '--class-name', 'A'], /--class-name must be the name of a class/],
  [['dns-endpoint', '--address', 'gw'], /--address must be an IPv4 or IPv6 address: gw/],
  [['rbca'], /Unknown target 'rbca'\. Did you mean 'rbac'\?/],
  [
    ['haproxy', '--haproxy-version', '2.4'],
    /--haproxy-version: HAProxy 2\.4 is too old: 2\.6 or newer is needed/,
  ],
  [['haproxy', '--haproxy-version', 'new'], /--haproxy-version must be like 2\.6 or 3\.0: new/],
  [['haproxy', '--format', 'bind'], /--format is for causeway render dns/],
  [['rbac', '--haproxy-version', '3.0'], /--haproxy-version is for causeway render haproxy/],
  [['dns'], /--format is missing: one of bind, windows, infoblox, /],
  [['dns', '--format', 'bnd'], /Unknown --format 'bnd': did you mean bind\?/],
  [['dns', '--format', 'bind'], /--address is missing: the address of the gateway/],
  [['dns', '--format', 'bind', '--address', 'gw'], /--address must be an IPv4 or IPv6 address: gw/],
  [['rbac', '--format', 'bind'], /--format is for causeway render dns/],
  [['rbac', 'x.yaml'], /Give the file with -c: causeway render rbac -c x\.yaml/],
] as const) {
  test(`causeway render ${args.join(' ')}: wrong usage`, async () => {
    const { code, stdout, stderr } = await render('', ...args);
    assert.deepEqual([code, stdout], [64, '']);
    assert.match(stderr, message);
  });
}

test('causeway render haproxy says what HAProxy cannot do, and prints nothing if that changes who reaches what', async () => {
  const cluster = 'clusters: [{ name: a, api: { hosts: [a.test], backends: ["192.0.2.1:1"] } }]';
  const { code, stdout, stderr } = await render(`listen: [":1"]\n${cluster}`, 'haproxy');
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^# causeway\.yaml for HAProxy 2\.6 or newer/);
  const agents = await render(`listen: [{ on: ":1", agents: ["::/0"] }]\n${cluster}`, 'haproxy');
  assert.equal(agents.code, 0);
  assert.match(agents.stderr, /^warning: FILE:1:30: listen\[0\]\.agents: HAProxy expects a PROXY header/);
  assert.match(agents.stdout, /fc_pp_tlv\(0x20\)/);
  const old = await render(
    `listen: [{ on: ":1", agents: ["::/0"] }]\n${cluster}`,
    'haproxy',
    '--haproxy-version',
    '2.6',
  );
  assert.deepEqual([old.code, old.stdout], [1, '']);
  assert.match(old.stderr, /listen\[0\]\.idTlv: HAProxy 2\.6 reads an id only from TLV 0x05/);
});
