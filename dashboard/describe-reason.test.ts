import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closeReasons } from '../src/gateway/close-reason.ts';
import { dialFailures, errorOf } from '../src/gateway/stages/dial-failure.ts';
import { countOf, describeReason, dialErrors, kindOf, reasons } from './describe-reason.ts';

test('describeReason() has a sentence for each close reason, and no other', () => {
  assert.deepEqual(Object.keys(reasons).toSorted(), closeReasons.toSorted());
  const sentences = closeReasons.map(reason => describeReason(reason));
  assert.equal(new Set(sentences).size, closeReasons.length);
  for (const sentence of sentences) assert.match(sentence, /^[A-Z].*[a-zA-Z]$/);
});

test('describeReason() says why a dial failed, for each error that the gateway reports', () => {
  const reported = dialFailures.map((_, index) => errorOf('connect-failed', index)).filter(Boolean);
  assert.deepEqual(Object.keys(dialErrors).toSorted(), reported.toSorted());
  assert.equal(
    describeReason('connect-failed', 'refused'),
    'No backend could be reached: connection refused',
  );
});

test('describeReason() and kindOf() take what only a newer gateway knows as it is', () => {
  assert.equal(describeReason('out-of-tea'), 'out-of-tea');
  assert.equal(describeReason('connect-failed', 'tired'), 'No backend could be reached: tired');
  assert.equal(kindOf('out-of-tea'), 'refused');
  assert.equal(describeReason('constructor', 'toString'), 'constructor: toString');
});

test('countOf() adds up the reasons of a kind', () => {
  const counts = { done: 5, 'unknown-host': 2, 'no-sni': 3, 'connect-failed': 7 };
  assert.deepEqual(
    [countOf(counts, 'refused'), countOf(counts, 'failed'), countOf(counts, 'cut')],
    [5, 7, 0],
  );
});
