import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closeReasons } from '../src/gateway/close-reason.ts';
import { countOf, kindOf, reasonWords, wordsOf } from './reason-words.ts';

test('reasonWords has a sentence for each close reason, and no other', () => {
  assert.deepEqual(Object.keys(reasonWords).toSorted(), closeReasons.toSorted());
  const sentences = closeReasons.map(wordsOf);
  assert.equal(new Set(sentences).size, closeReasons.length);
  for (const sentence of sentences) assert.match(sentence, /^[A-Z].*[a-zA-Z]$/);
});

test('wordsOf() and kindOf() take a word of a newer gateway as it is', () => {
  assert.equal(wordsOf('out-of-tea'), 'out-of-tea');
  assert.equal(kindOf('out-of-tea'), 'refused');
  assert.equal(wordsOf('constructor'), 'constructor');
});

test('countOf() adds up the reasons of a kind', () => {
  const reasons = { done: 5, 'unknown-host': 2, 'no-sni': 3, 'connect-failed': 7 };
  assert.deepEqual(
    [countOf(reasons, 'refused'), countOf(reasons, 'failed'), countOf(reasons, 'cut')],
    [5, 7, 0],
  );
});
