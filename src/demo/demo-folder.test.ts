import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../testbed/temp-dir.ts';
import { DemoFolder, FolderError } from './demo-folder.ts';

const alone = { pid: 1000, isRunning: () => false };

test('DemoFolder removes everything it wrote, and the folder', async () => {
  await using dir = await tempDir();
  const folder = DemoFolder.claim(dir.path, alone);
  folder.write('causeway.yaml', 'a');
  mkdirSync(folder.reserve('cache'));
  writeFileSync(join(folder.file('cache'), 'x'), 'x');
  assert.equal(folder.typed('causeway.yaml'), 'demo-out/causeway.yaml');
  assert.equal(readFileSync(join(dir.path, 'demo-out/causeway.yaml'), 'utf8'), 'a');
  folder[Symbol.dispose]();
  assert.deepEqual(readdirSync(dir.path), []);
  // A second call must be harmless: the end of the process also makes one.
  folder[Symbol.dispose]();
});

test('DemoFolder keeps files that others put there meanwhile', async () => {
  await using dir = await tempDir();
  const folder = DemoFolder.claim(dir.path, alone);
  folder.write('causeway.yaml', 'a');
  writeFileSync(folder.file('mine'), 'x');
  folder[Symbol.dispose]();
  assert.deepEqual(readdirSync(join(dir.path, 'demo-out')), ['mine']);
});

test('DemoFolder refuses a folder that is not from a demo, and does not touch it', async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'demo-out');
  const foreign: (() => void)[] = [
    () => mkdirSync(path),
    () => writeFileSync(join(path, 'mine'), 'x'),
    () => writeFileSync(join(path, '.causeway-demo.json'), 'not JSON'),
    () => writeFileSync(join(path, '.causeway-demo.json'), '{"pid":"1","entries":["mine"]}'),
  ];
  for (const change of foreign) {
    change();
    const before = readdirSync(path);
    assert.throws(() => DemoFolder.claim(dir.path, alone), FolderError);
    assert.deepEqual(readdirSync(path), before);
  }
});

test('DemoFolder does not follow a symlink', async () => {
  await using dir = await tempDir();
  await using other = await tempDir();
  mkdirSync(join(other.path, 'demo-out'));
  writeFileSync(join(other.path, 'demo-out', '.causeway-demo.json'), '{"pid":1,"entries":["mine"]}');
  writeFileSync(join(other.path, 'demo-out', 'mine'), 'x');
  symlinkSync(join(other.path, 'demo-out'), join(dir.path, 'demo-out'));
  assert.throws(() => DemoFolder.claim(dir.path, alone), /not from a demo/);
  assert.ok(existsSync(join(other.path, 'demo-out', 'mine')));
});

test('DemoFolder refuses the folder of a running demo', async () => {
  await using dir = await tempDir();
  using _first = DemoFolder.claim(dir.path, alone);
  const second = { pid: 1001, isRunning: (pid: number) => pid === 1000 };
  assert.throws(() => DemoFolder.claim(dir.path, second), /process id 1000 is using it/);
});

test('DemoFolder takes over from a demo that was killed', async () => {
  await using dir = await tempDir();
  DemoFolder.claim(dir.path, alone).write('left.token', 'x');
  using folder = DemoFolder.claim(dir.path, { ...alone, pid: 1001 });
  assert.deepEqual(readdirSync(folder.path), ['.causeway-demo.json']);
});

test('DemoFolder takes over from a demo with the same process id, as in a restarted container', async () => {
  await using dir = await tempDir();
  DemoFolder.claim(dir.path, alone).write('left.token', 'x');
  using folder = DemoFolder.claim(dir.path, { ...alone, isRunning: () => true });
  assert.deepEqual(readdirSync(folder.path), ['.causeway-demo.json']);
});

test('DemoFolder says what to do when it cannot write', () => {
  // Not even root can create a folder there.
  assert.throws(
    () => DemoFolder.claim('/sys', alone),
    /this directory is not writable\. Start the demo in another one$/,
  );
});

test('DemoFolder deletes nothing outside the folder, whatever the marker lists', async () => {
  await using dir = await tempDir();
  writeFileSync(join(dir.path, 'mine'), 'x');
  mkdirSync(join(dir.path, 'demo-out'));
  const entries = ['../mine', join(dir.path, 'mine'), '..', '.', ''];
  writeFileSync(join(dir.path, 'demo-out', '.causeway-demo.json'), JSON.stringify({ pid: 1, entries }));
  using _folder = DemoFolder.claim(dir.path, alone);
  assert.ok(existsSync(join(dir.path, 'mine')));
});
