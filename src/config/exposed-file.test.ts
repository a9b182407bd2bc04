import assert from 'node:assert/strict';
import { chmod, stat, symlink, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { tempDir } from '../../testbed/temp-dir.ts';
import { exposedFile } from './exposed-file.ts';

test('exposedFile() reports files that more than their owner can access', async () => {
  await using dir = await tempDir();
  const file = dir.file('secret');
  await writeFile(file, 'x');
  await symlink(file, dir.file('link'));
  const stats = await stat(file);
  for (const [mode, reported] of [
    [0o600, undefined],
    [0o400, undefined],
    [0o640, '0640'],
    [0o644, '0644'],
    [0o604, '0604'],
    [0o602, '0602'],
  ] as const) {
    await chmod(file, mode);
    for (const path of [file, dir.file('link')]) {
      for (const uid of [stats.uid, 0, undefined])
        assert.equal((await exposedFile(path, uid))?.mode, reported);
    }
  }
  assert.deepEqual(await exposedFile(file, stats.uid), { file, mode: '0602', fix: `chmod 600 ${file}` });
});

test('exposedFile() ignores paths that are not files', async () => {
  await using dir = await tempDir();
  for (const path of [dir.file('missing'), dir.path, '/dev/null'])
    assert.equal(await exposedFile(path, 0), undefined);
});

test("exposedFile() allows group read on another user's file", async () => {
  await using dir = await tempDir();
  const file = dir.file('secret');
  await writeFile(file, 'x');
  const other = (await stat(file)).uid + 1;
  for (const [mode, reported] of [
    [0o440, undefined],
    [0o640, undefined],
    [0o660, '0660'],
    [0o644, '0644'],
  ] as const) {
    await chmod(file, mode);
    assert.equal((await exposedFile(file, other))?.mode, reported);
  }
});
