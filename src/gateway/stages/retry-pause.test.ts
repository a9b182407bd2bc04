import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryPause } from './retry-pause.ts';

const pauses = (backends: number, attempts: number) =>
  Array.from({ length: attempts }, (_, attempt) => retryPause(attempt, backends));

test('retryPause() is 0 for each backend at first, then 250 ms, 500 ms and 1 s before each further round', () => {
  assert.deepEqual(pauses(1, 4), [0, 250, 500, 1000]);
  assert.deepEqual(pauses(3, 8), [0, 0, 0, 250, 0, 0, 500, 0]);
});

test('retryPause() never exceeds a second, however many attempts there are', () => {
  assert.deepEqual(pauses(1, 101).slice(3), Array(98).fill(1000));
});
