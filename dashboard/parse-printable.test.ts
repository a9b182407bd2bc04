import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printableJson } from '../src/text/printable.ts';
import { parsePrintable } from './parse-printable.ts';

test('parsePrintable() shows control characters in every text', () => {
  const answer = { host: 'a\x1b[2J\u202eb\x9b', list: [{ why: 'c\u2066\t' }], count: 3, none: null };
  for (const json of [JSON.stringify(answer), printableJson(JSON.stringify(answer))])
    assert.deepEqual(parsePrintable(json), {
      host: 'a\\u001b[2J\\u202eb\\u009b',
      list: [{ why: 'c\\u2066\\u0009' }],
      count: 3,
      none: null,
    });
});

test('parsePrintable() leaves other texts, and the line ends of a list of mistakes', () => {
  const answer = { config: { error: 'a.yaml:1:2: "größer"\na.yaml:3:4: →' } };
  assert.deepEqual(parsePrintable(JSON.stringify(answer)), answer);
});

test('parsePrintable() does not rely on a gateway that escapes them', () => {
  assert.deepEqual(parsePrintable('{"host":"\u202emoc"}'), { host: '\\u202emoc' });
});
