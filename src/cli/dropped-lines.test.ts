import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DroppedLines } from './dropped-lines.ts';

test('DroppedLines says once a second how many there were, and nothing when there were none', t => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const said: number[] = [];
  const dropped = new DroppedLines(count => said.push(count) > 0);
  dropped.add(0);
  t.mock.timers.tick(5000);
  assert.deepEqual(said, []);
  dropped.add(3);
  t.mock.timers.tick(500);
  dropped.add(4);
  t.mock.timers.tick(500);
  t.mock.timers.tick(5000);
  assert.deepEqual(said, [7]);
  dropped.add(1);
  t.mock.timers.tick(1000);
  assert.deepEqual(said, [7, 1]);
});

test('DroppedLines keeps the count while it cannot be said, and tries again every second', t => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const said: number[] = [];
  let reads = false;
  const dropped = new DroppedLines(count => {
    if (reads) said.push(count);
    return reads;
  });
  dropped.add(5);
  for (let second = 0; second < 10; second++) {
    t.mock.timers.tick(1000);
    dropped.add(2);
  }
  assert.equal(dropped.tell(), false);
  reads = true;
  t.mock.timers.tick(1000);
  assert.deepEqual(said, [25]);
  assert.equal(dropped.tell(), true);
});

test('DroppedLines loses nothing that is dropped while it says', () => {
  const said: number[] = [];
  const dropped = new DroppedLines(count => {
    if (said.push(count) === 1) dropped.add(2);
    return true;
  });
  dropped.add(1);
  assert.equal(dropped.tell(), false);
  assert.equal(dropped.tell(), true);
  assert.deepEqual(said, [1, 2]);
});
