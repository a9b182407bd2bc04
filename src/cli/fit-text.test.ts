import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { printable } from '../text/printable.ts';
import { fitText, textWidth } from './fit-text.ts';

test('textWidth() counts columns', () => {
  for (const [text, width] of [
    ['', 0],
    ['abc', 3],
    ['✗ é', 3],
    ['e\u0301', 1],
    ['日本', 4],
    ['🚀', 2],
  ] as const)
    assert.equal(textWidth(text), width, text);
});

test('fitText() cuts what does not fit', () => {
  assert.equal(fitText('abc', 3), 'abc');
  assert.equal(fitText('abcd', 3), 'ab…');
  assert.equal(fitText('日本語', 4), '日…');
  assert.equal(fitText('abc', 0), '');
  assert.equal(fitText('abc', Number.POSITIVE_INFINITY), 'abc');
});

test('fitText() is never wider than asked for', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 0, max: 30 }), (text, width) => {
      assert.ok(textWidth(fitText(printable(text), width)) <= width);
    }),
  );
});
