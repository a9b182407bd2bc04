import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addPoint, HISTORY_SECONDS, noHistory, peakOf } from './history.ts';

const rates = { connections: 1, bytesIn: 2, bytesOut: 3, refused: 4 };

test('addPoint() keeps the last minutes, all columns of one length', () => {
  let history = noHistory;
  for (let at = 1000; at <= 2000; at += 2) history = addPoint(history, at, at, rates);
  assert.equal(history.at[0], 2000 - HISTORY_SECONDS);
  assert.equal(history.at.at(-1), 2000);
  for (const column of Object.values(history)) assert.equal(column.length, history.at.length);
  assert.equal(history.open.at(-1), 2000);
  assert.equal(history.refused.at(-1), 4);
});

test('addPoint() breaks the line where the page was not looking', () => {
  const history = addPoint(addPoint(noHistory, 100, 5, rates), 130, 6, rates);
  assert.deepEqual(history.at, [100, 101, 130]);
  assert.deepEqual(history.open, [5, null, 6]);
  assert.deepEqual(history.bytesIn, [2, null, 2]);
});

test('addPoint() has no rate where none is known', () => {
  const history = addPoint(noHistory, 100, 5, undefined);
  assert.deepEqual([history.open, history.connections, history.bytesOut], [[5], [null], [null]]);
});

test('addPoint() leaves out a point that is not later', () => {
  const history = addPoint(noHistory, 100, 5, rates);
  assert.equal(addPoint(history, 100, 6, rates), history);
});

test('peakOf() is the highest value, 0 where nothing is known', () => {
  assert.equal(peakOf([]), 0);
  assert.equal(peakOf([null, 3, 7, null, 5]), 7);
});
