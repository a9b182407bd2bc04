import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { median, summarize } from './statistics.ts';

test('median() returns the middle sample, or the mean of the two middle ones', () => {
  assert.equal(median([3, 100, 1]), 3);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

test('median() has as many samples above as below', () => {
  const samples = fc.array(fc.double({ noNaN: true, min: -1e9, max: 1e9 }), { minLength: 1 });
  fc.assert(
    fc.property(samples, values => {
      const middle = median(values);
      const above = values.filter(value => value > middle).length;
      const below = values.filter(value => value < middle).length;
      assert.ok(above <= values.length / 2 && below <= values.length / 2);
    }),
  );
});

test('summarize() returns median and spread, which are robust against an outlier', () => {
  const { median, min, max, mad } = summarize([10, 11, 12, 13, 1000]);
  assert.deepEqual([median, min, max, mad], [12, 10, 1000, 1]);
});

test('summarize() throws without samples', () => {
  assert.throws(() => summarize([]), /at least one sample/);
});
