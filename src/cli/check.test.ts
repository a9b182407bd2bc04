import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../../testbed/run.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

const CAUSEWAY = fileURLToPath(new URL('../../bin/causeway', import.meta.url));

async function check(yaml: string, ...args: readonly string[]) {
  await using dir = await tempDir();
  const file = dir.file('causeway.yaml');
  await writeFile(file, yaml);
  const { code, stdout, stderr } = await run(CAUSEWAY, ['check', ...args, '-c', file]);
  return { code, stdout: stdout.toString(), stderr: stderr.replaceAll(file, 'FILE') };
}

const STACKED = `listen:
  - on: ":6443"
    balancers: [192.0.2.0/24]
    agents: ["::/0"]
clusters:
  - name: a
    api: { hosts: [a.test], backends: ["192.0.2.1:1"], connect: [a.svc] }
`;

test('causeway check --engine haproxy names what HAProxy cannot do', async () => {
  const { code, stderr } = await check(STACKED, '--engine', 'haproxy');
  assert.equal(code, 1);
  assert.match(stderr, /^FILE:7:65: clusters\[0\]\.api\.connect: HAProxy cannot route CONNECT/m);
  assert.match(stderr, /^warning: FILE:4:13: listen\[0\]\.agents: on HAProxy, agents cannot use CONNECT/m);
  assert.match(stderr, /^warning: FILE: engine: HAProxy sends no TLS alert/m);
});

test('causeway check --engine haproxy --json has mistakes and warnings apart', async () => {
  const { code, stdout } = await check(`engine: haproxy\n${STACKED}`, '--json');
  assert.equal(code, 1);
  const { mistakes, warnings } = JSON.parse(stdout);
  const paths = (list: readonly { path: string }[]) => list.map(({ path }) => path);
  assert.deepEqual(paths(mistakes), ['clusters[0].api.connect']);
  assert.ok(paths(warnings).includes('engine'));
  assert.equal(warnings.find(({ path }: { path: string }) => path === 'engine').line, 1);
});

test('causeway check says nothing of HAProxy for other engines', async () => {
  const { code, stderr } = await check(STACKED);
  assert.deepEqual([code, /HAProxy/.test(stderr)], [0, false]);
});
