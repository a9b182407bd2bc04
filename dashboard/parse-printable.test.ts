import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printableJson } from '../src/text/printable.ts';
import { parsePrintable } from './parse-printable.ts';

test('parsePrintable() leaves no control character, escaped by the gateway or not', () => {
  const ranges: [number, number][] = [
    [0x00, 0x1f],
    [0x7f, 0x9f],
    [0x61c, 0x61c],
    [0x200e, 0x200f],
    [0x2028, 0x202e],
    [0x2066, 0x2069],
    [0xfeff, 0xfeff],
  ];
  for (const [first, last] of ranges)
    for (let code = first; code <= last; code++) {
      if (code === 0x0a) continue;
      const host = `a${String.fromCharCode(code)}b`;
      const json = JSON.stringify({ host });
      const shown = { host: `a\\u${code.toString(16).padStart(4, '0')}b` };
      assert.deepEqual(parsePrintable(json), shown);
      assert.deepEqual(parsePrintable(printableJson(json)), shown);
    }
});

test('parsePrintable() escapes control characters in every text', () => {
  const answer = { host: 'a\x1b[2J\u202eb\x9b', list: [{ why: 'c\u2066\t' }], count: 3, none: null };
  for (const json of [JSON.stringify(answer), printableJson(JSON.stringify(answer))])
    assert.deepEqual(parsePrintable(json), {
      host: 'a\\u001b[2J\\u202eb\\u009b',
      list: [{ why: 'c\\u2066\\u0009' }],
      count: 3,
      none: null,
    });
});

test('parsePrintable() keeps other texts, and the line ends of a list of mistakes', () => {
  const answer = { config: { error: 'a.yaml:1:2: "größer"\na.yaml:3:4: →' } };
  assert.deepEqual(parsePrintable(JSON.stringify(answer)), answer);
});

test('parsePrintable() does not rely on a gateway that escapes them', () => {
  assert.deepEqual(parsePrintable('{"host":"\u202emoc"}'), { host: '\\u202emoc' });
});
