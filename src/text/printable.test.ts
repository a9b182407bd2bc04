import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { printable, printableJson } from './printable.ts';

/** By Unicode properties: Cc is C0, DEL and C1. */
const CONTROL = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\ufeff]/u;
/** Text with many control characters. */
const text = fc.string({
  unit: fc.oneof(
    fc.integer({ min: 0, max: 0xa5 }).map(code => String.fromCharCode(code)),
    fc.constantFrom('\u061c', '\u200e', '\u200f', '\u2028', '\u2029', '\u202e', '\u2066', '\u2069', '\ufeff'),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
  ),
});

test('printable() escapes control characters', () => {
  assert.equal(
    printable('a\x1b[2J\x07b\x9b1m\x7f\u2028\u202ec\u2066\u0085\td\r\n'),
    'a\\u001b[2J\\u0007b\\u009b1m\\u007f\\u2028\\u202ec\\u2066\\u0085\\td\\r\\n',
  );
  assert.equal(printable('api.blue.lab → 192.0.2.1:6443 ✓ größer'), 'api.blue.lab → 192.0.2.1:6443 ✓ größer');
});

test('printable() leaves no control character or line break', () => {
  fc.assert(fc.property(text, some => !CONTROL.test(printable(some))));
});

test('printableJson() leaves no control character, and keeps the value', () => {
  fc.assert(
    fc.property(fc.record({ host: text, more: fc.array(text) }), value => {
      const json = printableJson(JSON.stringify(value));
      assert.ok(!CONTROL.test(json), json);
      assert.equal(JSON.stringify(JSON.parse(json)), JSON.stringify(value));
    }),
  );
});
