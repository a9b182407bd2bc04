import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { freePort, keepPort } from './free-port.ts';
import { run } from './run.ts';
import { tempDir } from './temp-dir.ts';

test('freePort() returns a port that can be listened on, and another one next time', async () => {
  const [first, second] = [await freePort(), await freePort()];
  assert.notEqual(first, second);
  const server = createServer().listen(first, '127.0.0.1');
  await once(server, 'listening');
  server.close();
});

test('freePort() skips a port that is in use', async () => {
  const taken = await freePort();
  const server = createServer().listen(taken, '127.0.0.1');
  await once(server, 'listening');
  const others: number[] = [];
  for (let i = 0; i < 62; i++) others.push(await freePort());
  assert.equal(others.includes(taken), false);
  server.close();
});

test('keepPort() returns a port that freePort() leaves alone, although nothing listens there', async () => {
  const all = [await keepPort(), await keepPort()];
  for (let i = 0; i < 61; i++) all.push(await freePort());
  assert.equal(new Set(all).size, all.length);
});

test('freePort() returns other ports in another process', async () => {
  const source = `
    const { freePort } = await import(${JSON.stringify(new URL('./free-port.ts', import.meta.url).href)});
    const ports = [];
    for (let i = 0; i < 63; i++) ports.push(await freePort());
    process.stdout.write(JSON.stringify(ports));`;
  const own = await freePort();
  const results = await Promise.all(
    [1, 2].map(() => run(process.execPath, ['--input-type=module', '-e', source])),
  );
  const [first, second] = results.map(({ stdout }) => JSON.parse(stdout.toString()) as number[]);
  assert.equal(new Set([own, ...(first as number[]), ...(second as number[])]).size, 127);
});

test('tempDir() removes the directory and its content', async () => {
  let path: string;
  {
    await using dir = await tempDir();
    path = dir.path;
    await run('sh', ['-c', 'mkdir a && echo x >a/b'], { cwd: dir.path });
    assert.equal((await run('cat', [dir.file('a/b')])).stdout.toString(), 'x\n');
  }
  assert.notEqual((await run('ls', [path])).code, 0);
});
