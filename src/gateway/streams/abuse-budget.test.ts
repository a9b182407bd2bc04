import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AbuseBudget } from './abuse-budget.ts';

function taken(budget: AbuseBudget, now: number): number {
  for (let count = 0; ; count++) if (!budget.take(now)) return count;
}

test('AbuseBudget allows 1000 events at once, then 100 a second', () => {
  const budget = new AbuseBudget(5000);
  assert.equal(taken(budget, 5000), 1000);
  assert.equal(taken(budget, 5005), 0);
  assert.equal(taken(budget, 6000), 100);
});

test('AbuseBudget never allows more than 1000 events at once, however long it was unused', () => {
  const budget = new AbuseBudget(0);
  assert.equal(taken(budget, 3_600_000), 1000);
});
