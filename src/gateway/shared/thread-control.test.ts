import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { ThreadControl } from './thread-control.ts';

test('a thread that is being ended enters nothing', () => {
  const control = new ThreadControl(ThreadControl.memory(0));
  assert.ok(control.enter());
  control.leave();
  control.stop();
  assert.ok(!control.enter());
  // Would wait in vain if enter() had left its mark.
  const before = performance.now();
  control.awaitLeft();
  assert.ok(performance.now() - before < 50);
});

test('awaitLeft() waits until the thread has left', async () => {
  const memory = ThreadControl.memory(0);
  const done = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(
    `const { workerData: { memory, done, module } } = require('node:worker_threads');
    import(module).then(({ ThreadControl }) => {
      const control = new ThreadControl(memory);
      control.enter();
      Atomics.store(done, 0, 1);
      Atomics.notify(done, 0);
      while (!control.isStopping);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      Atomics.store(done, 0, 2);
      control.leave();
    });`,
    {
      eval: true,
      workerData: { memory, done, module: new URL('./thread-control.ts', import.meta.url).href },
    },
  );
  Atomics.wait(done, 0, 0);
  const control = new ThreadControl(memory);
  control.stop();
  control.awaitLeft();
  assert.equal(Atomics.load(done, 0), 2);
  await worker.terminate();
});

test('awaitLeft() gives up on a thread that does not leave', () => {
  const control = new ThreadControl(ThreadControl.memory(0));
  control.enter();
  control.stop();
  control.awaitLeft();
});
