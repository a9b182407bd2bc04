import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { SocketFolder } from './socket-folder.ts';

let parent: string;

before(async () => {
  parent = await mkdtemp(join(tmpdir(), 'parent-'));
});

after(() => rm(parent, { recursive: true }));

/** The folder of a process that was killed, with another socket in it. */
async function abandoned(): Promise<string> {
  const program = `
    import { createServer } from 'node:net';
    import { SocketFolder } from ${JSON.stringify(new URL('./socket-folder.ts', import.meta.url).href)};
    const folder = await SocketFolder.make(${JSON.stringify(parent)});
    createServer().listen(folder.path + '/internal-0', () => console.log(folder.path));`;
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [path] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
  child.kill('SIGKILL');
  await once(child, 'exit');
  return path.trim();
}

test('SocketFolder.make() removes the folder of a process that was killed, and no other', async () => {
  const dead = await abandoned();
  const held = await abandoned();
  await writeFile(join(held, 'somebodys'), '');
  const open = await abandoned();
  await chmod(open, 0o755);
  const elsewhere = join(parent, 'elsewhere');
  await mkdir(elsewhere, { mode: 0o700 });
  await symlink(elsewhere, join(parent, 'causeway-sockets-link'));
  await mkdir(join(parent, 'causeway-sockets-new'), { mode: 0o700 });
  await using alive = await SocketFolder.make(parent);
  assert.deepEqual(await readdir(alive.path), ['owner']);

  await using other = await SocketFolder.make(parent);
  const left = await readdir(parent);
  assert.equal(left.includes(basename(dead)), false);
  const kept = [held, open, elsewhere, alive.path, other.path].map(path => basename(path));
  assert.deepEqual(left.toSorted(), [...kept, 'causeway-sockets-link', 'causeway-sockets-new'].toSorted());
  assert.deepEqual((await readdir(held)).toSorted(), ['internal-0', 'owner', 'somebodys']);
});

test('SocketFolder is removed when it is disposed', async () => {
  const folder = await SocketFolder.make(parent);
  await folder[Symbol.asyncDispose]();
  assert.equal((await readdir(parent)).includes(basename(folder.path)), false);
});

test('SocketFolder.make() explains what it needs when the folder cannot be made', async () => {
  const long = join(parent, 'x'.repeat(100));
  await mkdir(long);
  for (const place of [join(parent, 'missing'), long]) {
    await assert.rejects(SocketFolder.make(place), {
      code: 'ERR_LISTEN',
      message: /^Cannot listen on '.*\/causeway-sockets-…': E[A-Z]+: .*TMPDIR/,
    });
  }
  assert.deepEqual(await readdir(long), []);
});
