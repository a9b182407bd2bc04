import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationText } from './duration-text.ts';

test('durationText() rounds to a readable precision', () => {
  for (const [ms, text] of [
    [0, '0 ms'],
    [0.04, '0 ms'],
    [1.26, '1.3 ms'],
    [500, '500 ms'],
    [999.94, '999.9 ms'],
    [999.96, '1 s'],
    [3891.1, '3.9 s'],
    [59_940, '59.9 s'],
    [59_960, '1 min'],
    [60_000, '1 min'],
    [125_000, '2 min 5 s'],
    [3_599_900, '1 h'],
    [600_000, '10 min'],
    [93_784_500, '1 d 2 h'],
  ] as const) {
    assert.equal(durationText(ms), text, String(ms));
  }
});
