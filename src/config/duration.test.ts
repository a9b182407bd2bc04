import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseDuration } from './duration.ts';

test('parseDuration() reads a whole number with ms, s, m or h', () => {
  assert.equal(parseDuration('500ms'), 500);
  assert.equal(parseDuration('5s'), 5000);
  assert.equal(parseDuration('10m'), 600_000);
  assert.equal(parseDuration('1h'), 3_600_000);
  assert.equal(parseDuration('0s'), 0);
});

test('parseDuration() refuses everything else', () => {
  for (const text of [
    '',
    '5',
    's',
    '-5s',
    '1.5s',
    '5 s',
    ' 5s',
    '5s ',
    '5S',
    '1h30m',
    '5d',
    'off',
    '٣s',
    '5s\n',
  ]) {
    assert.equal(parseDuration(text), undefined, JSON.stringify(text));
  }
  fc.assert(
    fc.property(fc.string(), text => parseDuration(text) === undefined || /^\d+(ms|s|m|h)$/.test(text)),
  );
});
