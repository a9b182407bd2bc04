import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, open, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readConfigFile } from './read-config-file.ts';

/** The user nobody, on Debian and most other systems. */
const NOBODY = 65_534;

const directory = await mkdtemp(join(tmpdir(), 'causeway-config-'));
after(() => rm(directory, { recursive: true }));

async function made(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, content);
  return path;
}

/** Code and message for a file that cannot be read. */
async function unreadable(path: string): Promise<readonly [string, string]> {
  const result = await readConfigFile(path);
  assert.ok(!result.ok && 'code' in result);
  assert.equal(result.mistakes.length, 1);
  const { line, column, text } = result.mistakes[0];
  assert.deepEqual([line, column], [0, 0]);
  return [result.code, text];
}

test('readConfigFile() reads a file, also through a symlink', async () => {
  const path = await made('good.yaml', 'listen: [":6443"]\n');
  await symlink(path, join(directory, 'link.yaml'));
  for (const name of ['good.yaml', 'link.yaml']) {
    const result = await readConfigFile(join(directory, name));
    assert.ok(result.ok);
    assert.equal(result.config.listen[0].port, 6443);
  }
});

test('readConfigFile() accepts UTF-8 with a byte order mark', async () => {
  const result = await readConfigFile(await made('bom.yaml', '\ufefflisten: [":6443"]\n'));
  assert.ok(result.ok);
});

test('readConfigFile() names the file as it was given', async () => {
  const path = await made('twice.yaml', 'listen: [":6443", ":6443"]\n');
  const result = await readConfigFile(path);
  assert.ok(!result.ok);
  assert.equal(result.mistakes[0].text, `":6443" is already used at ${path}:1:10: keep one`);
});

test('readConfigFile() reports an empty file', async () => {
  const result = await readConfigFile(await made('empty.yaml', ''));
  assert.ok(!result.ok && !('code' in result));
  assert.match(result.mistakes[0].text, /^the file is empty/);
});

test('readConfigFile() reports a missing file', async () => {
  const inside = join(await made('file.yaml', ''), 'x.yaml');
  assert.deepEqual(await unreadable(join(directory, 'none.yaml')), ['missing', 'there is no such file']);
  assert.deepEqual(await unreadable(inside), [
    'missing',
    'there is no such file: a part of its path is not a directory',
  ]);
});

test('readConfigFile() refuses a directory, a device and a pipe that nobody writes to', async () => {
  await mkdir(join(directory, 'directory'));
  execFileSync('mkfifo', [join(directory, 'pipe')]);
  const other = ['not-a-file', 'must be a regular file: this is a device, pipe or socket'];
  assert.deepEqual(await unreadable(join(directory, 'directory')), [
    'not-a-file',
    'must be a file: this is a directory',
  ]);
  assert.deepEqual(await unreadable('/dev/zero'), other);
  assert.deepEqual(await unreadable(join(directory, 'pipe')), other);
});

test('readConfigFile() refuses a file of 100 MB without reading it', async () => {
  const path = join(directory, 'huge.yaml');
  const file = await open(path, 'w');
  await file.truncate(100_000_000);
  await file.close();
  const before = process.memoryUsage().rss;
  assert.deepEqual(await unreadable(path), ['too-large', 'must be at most 16 MiB: this file is 96 MiB']);
  assert.ok(process.memoryUsage().rss - before < 50_000_000);
});

test('readConfigFile() refuses binary content and text that is not UTF-8', async () => {
  const utf16 = new Uint8Array(Buffer.from('listen: [":6443"]', 'utf16le'));
  const latin1 = new Uint8Array(Buffer.from('stateDir: /mühle', 'latin1'));
  assert.equal((await unreadable(await made('utf16.yaml', utf16)))[0], 'binary');
  assert.equal((await unreadable(await made('latin1.yaml', latin1)))[0], 'binary');
});

test('readConfigFile() reports missing permission', async () => {
  const path = await made('secret.yaml', 'listen: [":6443"]');
  await chmod(path, 0);
  // root may read everything, so drop root for a moment.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) process.seteuid?.(NOBODY);
  try {
    assert.equal((await unreadable(path))[0], 'no-permission');
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});

test('readConfigFile() never rejects, for any file name', async () => {
  for (const name of ['', '\0', 'x'.repeat(5000)]) await unreadable(name);
});
