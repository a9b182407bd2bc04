import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from './run.ts';

test('run() returns what a program printed and how it ended', async () => {
  const { code, signal, stdout, stderr } = await run('sh', ['-c', 'cat; echo oops >&2; exit 4'], {
    input: 'hello',
  });
  assert.deepEqual([code, signal, stdout.toString(), stderr], [4, null, 'hello', 'oops\n']);
});

test('run() keeps the input open until the output satisfies', async () => {
  // cat ends only when its input does.
  const { stdout } = await run('sh', ['-c', 'echo a; cat'], {
    input: 'b\n',
    inputUntil: seen => seen.length >= 4,
  });
  assert.equal(stdout.toString(), 'a\nb\n');
});

test('run() kills a program that takes too long, and shows what it printed', async () => {
  const late = run('sh', ['-c', 'echo begun; sleep 1000'], { timeoutMs: 200 });
  await assert.rejects(late, /^Error: sh did not end within 200 ms\. It printed:\nbegun\n/);
});

test('run() reports an unknown program', async () => {
  await assert.rejects(
    run('/no/such/program', []),
    /^Error: Cannot start program: spawn \/no\/such\/program ENOENT$/,
  );
});

test('run() tolerates a program that closes its input', async () => {
  const { code } = await run('true', [], { input: Buffer.alloc(1 << 20) });
  assert.equal(code, 0);
});
