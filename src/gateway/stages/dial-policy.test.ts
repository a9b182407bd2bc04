import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attemptEnd, lastMoment, pauseBefore } from './dial-policy.ts';

const terms = { startedAt: 1000, connectMs: 100_000, retries: 1000 };

const pauses = (backends: number, attempts: number) =>
  Array.from({ length: attempts }, (_, attempt) => pauseBefore(attempt, backends, terms, 1000));

test('pauseBefore() is 0 for each backend at first, then 250 ms, 500 ms and 1 s before each further round', () => {
  assert.deepEqual(pauses(1, 4), [0, 250, 500, 1000]);
  assert.deepEqual(pauses(3, 8), [0, 0, 0, 250, 0, 0, 500, 0]);
});

test('pauseBefore() never exceeds a second, however many attempts there are', () => {
  assert.deepEqual(pauses(1, 101).slice(3), Array(98).fill(1000));
});

test('pauseBefore() allows as many retries as the terms, and none after the last moment', () => {
  const few = { startedAt: 1000, connectMs: 500, retries: 2 };
  assert.equal(lastMoment(1000, 500), 2500);
  assert.equal(pauseBefore(2, 3, few, 2000), 0);
  assert.equal(pauseBefore(3, 3, few, 2000), undefined);
  assert.equal(pauseBefore(1, 3, few, 2499), 0);
  assert.equal(pauseBefore(1, 3, few, 2500), undefined);
});

test('a pause and an attempt end at the last moment', () => {
  const few = { startedAt: 1000, connectMs: 500, retries: 9 };
  assert.equal(pauseBefore(1, 1, few, 2300), 200);
  assert.equal(attemptEnd(1000, 500, 1200), 1700);
  assert.equal(attemptEnd(1000, 500, 2300), 2500);
});
