import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type HealthState, judge, unchecked } from './health-state.ts';

function after(results: readonly boolean[], settings: { rise: number; fall: number }): boolean {
  return results.reduce<HealthState>((state, ok) => judge(state, ok, settings), unchecked).down;
}

test('judge() lets the first check of a backend decide, for any rise and fall', () => {
  const settings = { rise: 5, fall: 5 };
  assert.deepEqual(judge(unchecked, false, settings), { known: true, down: true, streak: 0 });
  assert.deepEqual(judge(unchecked, true, settings), { known: true, down: false, streak: 0 });
  assert.equal(unchecked.known, false);
});

test('judge() takes a backend down after `fall` failures in a row, not before', () => {
  const settings = { rise: 2, fall: 3 };
  assert.equal(after([true], settings), false);
  assert.equal(after([true, false, false], settings), false);
  assert.equal(after([true, false, false, false], settings), true);
  assert.equal(after([true, false, false, true, false, false], settings), false);
  assert.equal(after([true, false], { rise: 2, fall: 1 }), true);
});

test('judge() brings it back after `rise` successes in a row, not before', () => {
  const settings = { rise: 2, fall: 1 };
  assert.equal(after([false, true], settings), true);
  assert.equal(after([false, true, false, true], settings), true);
  assert.equal(after([false, true, true], settings), false);
  assert.equal(after([false, true], { rise: 1, fall: 1 }), false);
});

test('judge() changes the state at the first check, then exactly after a run of `rise` or `fall`', () => {
  const limits = fc.integer({ min: 1, max: 4 });
  fc.assert(
    fc.property(fc.boolean(), fc.array(fc.boolean()), limits, limits, (first, results, rise, fall) => {
      let state = judge(unchecked, first, { rise, fall });
      assert.equal(state.down, !first);
      const since: boolean[] = [];
      for (const ok of results) {
        const before = state.down;
        state = judge(state, ok, { rise, fall });
        since.push(ok);
        const wanted = before ? rise : fall;
        const run = since.slice(-wanted);
        const turned = run.length === wanted && run.every(one => one === before);
        assert.equal(state.down !== before, turned);
        if (turned) since.length = 0;
      }
    }),
  );
});
