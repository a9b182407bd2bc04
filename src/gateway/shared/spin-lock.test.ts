import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acquire, release } from './spin-lock.ts';

test('acquire() takes a free lock without a nap, and release() frees it', () => {
  const words = new Int32Array(new SharedArrayBuffer(8));
  for (let i = 0; i < 3; i++) {
    acquire(words, 1, () => assert.fail('napped'));
    assert.deepEqual([...words], [0, 1]);
    release(words, 1);
    assert.deepEqual([...words], [0, 0]);
  }
});

test('acquire() naps while another holds the lock, and takes it once it is free', () => {
  const words = new Int32Array(new SharedArrayBuffer(4));
  acquire(words, 0);
  let naps = 0;
  acquire(words, 0, () => {
    if (++naps === 5) release(words, 0);
  });
  assert.equal(naps, 5);
  assert.equal(words[0], 1);
});

test('acquire() takes the lock of a holder that died', () => {
  const words = new Int32Array(new SharedArrayBuffer(4));
  acquire(words, 0);
  let naps = 0;
  acquire(words, 0, () => naps++);
  assert.equal(naps, 1000);
  assert.equal(words[0], 1);
});
