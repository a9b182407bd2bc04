import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DroppedLines } from './dropped-lines.ts';

test('DroppedLines reports its count once a second, and nothing when no lines were dropped', t => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const reported: number[] = [];
  const dropped = new DroppedLines(count => reported.push(count) > 0);
  dropped.add(0);
  t.mock.timers.tick(5000);
  assert.deepEqual(reported, []);
  dropped.add(3);
  t.mock.timers.tick(500);
  dropped.add(4);
  t.mock.timers.tick(500);
  t.mock.timers.tick(5000);
  assert.deepEqual(reported, [7]);
  dropped.add(1);
  t.mock.timers.tick(1000);
  assert.deepEqual(reported, [7, 1]);
});

test('DroppedLines keeps the count while reporting fails, and retries every second', t => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const reported: number[] = [];
  let reads = false;
  const dropped = new DroppedLines(count => {
    if (reads) reported.push(count);
    return reads;
  });
  dropped.add(5);
  for (let second = 0; second < 10; second++) {
    t.mock.timers.tick(1000);
    dropped.add(2);
  }
  assert.equal(dropped.report(), false);
  reads = true;
  t.mock.timers.tick(1000);
  assert.deepEqual(reported, [25]);
  assert.equal(dropped.report(), true);
});

test('DroppedLines counts lines that are dropped while it reports', () => {
  const reported: number[] = [];
  const dropped = new DroppedLines(count => {
    if (reported.push(count) === 1) dropped.add(2);
    return true;
  });
  dropped.add(1);
  assert.equal(dropped.report(), false);
  assert.equal(dropped.report(), true);
  assert.deepEqual(reported, [1, 2]);
});
