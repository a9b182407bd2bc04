import assert from 'node:assert/strict';
import { chmod, mkdir, stat, symlink, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { tempDir } from '../../testbed/temp-dir.ts';
import { openRunDir, RunDirError } from './run-dir.ts';

const uid = process.getuid?.() ?? 0;
const nothing = {
  configured: undefined,
  runtimeDirectory: undefined,
  temporaryDirectory: '/nonexistent',
  uid,
};

test('openRunDir() makes the configured folder, private, and takes it again', async () => {
  await using dir = await tempDir();
  const configured = dir.file('run');
  for (let i = 0; i < 2; i++) assert.equal(await openRunDir({ ...nothing, configured }), configured);
  assert.equal((await stat(configured)).mode & 0o777, 0o700);
});

test('openRunDir() takes $XDG_RUNTIME_DIR, and another place where it cannot', async () => {
  await using dir = await tempDir();
  const temporaryDirectory = dir.path;
  await mkdir(dir.file('xdg'));
  const runtimeDirectory = dir.file('xdg');
  assert.equal(
    await openRunDir({ ...nothing, runtimeDirectory, temporaryDirectory }),
    `${runtimeDirectory}/causeway`,
  );
  const elsewhere = await openRunDir({
    ...nothing,
    runtimeDirectory: dir.file('missing'),
    temporaryDirectory,
  });
  assert.ok(['/run/causeway', `${temporaryDirectory}/causeway-run-${uid}`].includes(elsewhere), elsewhere);
});

test('openRunDir() refuses what others could use, and says why', async () => {
  await using dir = await tempDir();
  await mkdir(dir.file('open'));
  await chmod(dir.file('open'), 0o750);
  await mkdir(dir.file('own'), { mode: 0o700 });
  await symlink(dir.file('own'), dir.file('link'));
  await writeFile(dir.file('file'), '');
  const cases: [string, RegExp, boolean][] = [
    ['open', /its mode is 0750\. It must be a folder of this user with mode 0700/, true],
    ['link', /it is not a folder/, true],
    ['file', /it is not a folder/, true],
    ['missing/run', /the folder that it should be in does not exist/, false],
    ['x'.repeat(120), /longer than 107 bytes/, false],
  ];
  for (const [name, words, isUnsafe] of cases) {
    await assert.rejects(openRunDir({ ...nothing, configured: dir.file(name) }), error => {
      assert.ok(error instanceof RunDirError);
      assert.match(error.message, words);
      assert.equal(error.isUnsafe, isUnsafe, name);
      return true;
    });
  }
  await assert.rejects(
    openRunDir({ ...nothing, configured: dir.file('own'), uid: uid + 1 }),
    /belongs to the user/,
  );
});
