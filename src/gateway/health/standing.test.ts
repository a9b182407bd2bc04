import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { judge, newcomer, type Standing } from './standing.ts';

function after(results: readonly boolean[], settings: { rise: number; fall: number }): boolean {
  return results.reduce<Standing>((standing, ok) => judge(standing, ok, settings), newcomer).down;
}

test('judge() takes a backend down after `fall` failures in a row, not before', () => {
  const settings = { rise: 2, fall: 3 };
  assert.equal(after([], settings), false);
  assert.equal(after([false], settings), false);
  assert.equal(after([false, false], settings), false);
  assert.equal(after([false, false, false], settings), true);
  assert.equal(after([false, false, true, false, false], settings), false);
  assert.equal(after([false], { rise: 2, fall: 1 }), true);
});

test('judge() brings it back after `rise` successes in a row, not before', () => {
  const settings = { rise: 2, fall: 1 };
  assert.equal(after([false, true], settings), true);
  assert.equal(after([false, true, false, true], settings), true);
  assert.equal(after([false, true, true], settings), false);
  assert.equal(after([false, true], { rise: 1, fall: 1 }), false);
});

test('judge() changes its mind exactly at the end of a run of `rise` or `fall`', () => {
  const limits = fc.integer({ min: 1, max: 4 });
  fc.assert(
    fc.property(fc.array(fc.boolean()), limits, limits, (results, rise, fall) => {
      let standing = newcomer;
      const since: boolean[] = [];
      for (const ok of results) {
        const before = standing.down;
        standing = judge(standing, ok, { rise, fall });
        since.push(ok);
        const wanted = before ? rise : fall;
        const run = since.slice(-wanted);
        const turned = run.length === wanted && run.every(one => one === before);
        assert.equal(standing.down !== before, turned);
        if (turned) since.length = 0;
      }
    }),
  );
});
