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

for (const [args, message] of [
  [[], /^causeway: Name a target: rbac, dns\./],
  [['rbca'], /Unknown target 'rbca'\. Did you mean 'rbac'\?/],
  [['haproxy'], /This version cannot render 'haproxy' yet/],
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
