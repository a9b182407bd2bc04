import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Patience } from './patience.ts';

function taken(patience: Patience, now: number): number {
  for (let count = 0; ; count++) if (!patience.take(now)) return count;
}

test('Patience bears 1000 at once, then 100 a second', () => {
  const patience = new Patience(5000);
  assert.equal(taken(patience, 5000), 1000);
  assert.equal(taken(patience, 5005), 0);
  assert.equal(taken(patience, 6000), 100);
});

test('Patience never bears more than 1000 at once, however long it was not tried', () => {
  const patience = new Patience(0);
  assert.equal(taken(patience, 3_600_000), 1000);
});
