import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BROKEN, DENIED, EXHAUSTED, REFUSED, RESET, TIMED_OUT, UNREACHABLE } from '../io/reactor.ts';
import { dialFailureIndex, errorOf, failureOf, reasonOfFailure } from './dial-failure.ts';

test('failureOf() names every way in which a connect fails', () => {
  assert.deepEqual([REFUSED, UNREACHABLE, DENIED, TIMED_OUT, RESET, EXHAUSTED, BROKEN].map(failureOf), [
    'refused',
    'unreachable',
    'unreachable',
    'timeout',
    'reset',
    'exhausted',
    'other',
  ]);
});

test('reasonOfFailure() distinguishes a time-out and a shortage of our own from all others', () => {
  assert.equal(reasonOfFailure('timeout'), 'connect-timeout');
  assert.equal(reasonOfFailure('exhausted'), 'over-limit');
  for (const failure of ['refused', 'unreachable', 'name-not-found', 'reset', 'other'] as const)
    assert.equal(reasonOfFailure(failure), 'connect-failed');
});

test('errorOf() is the name of a failed dial, and null for other reasons and unnamed failures', () => {
  assert.equal(errorOf('connect-failed', dialFailureIndex.refused), 'refused');
  assert.equal(errorOf('connect-timeout', dialFailureIndex.timeout), 'timeout');
  assert.equal(errorOf('connect-failed', dialFailureIndex['name-not-found']), 'name-not-found');
  assert.equal(errorOf('connect-failed', dialFailureIndex.other), null);
  assert.equal(errorOf('connect-failed', 0), null);
  assert.equal(errorOf('over-limit', dialFailureIndex.exhausted), null);
  // Under another reason the detail has another meaning.
  assert.equal(errorOf('bad-signature', dialFailureIndex.refused), null);
});
