import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ageText } from './age.ts';

test('ageText() formats a duration as kubectl does', () => {
  const seconds: [number, string][] = [
    [-5, '0s'],
    [0, '0s'],
    [119, '119s'],
    [120, '2m'],
    [125, '2m5s'],
    [599, '9m59s'],
    [600, '10m'],
    [3 * 3600 - 1, '179m'],
    [3 * 3600, '3h'],
    [5 * 3600 + 60, '5h1m'],
    [8 * 3600, '8h'],
    [48 * 3600 - 1, '47h'],
    [48 * 3600, '2d'],
    [3 * 86_400 + 7200, '3d2h'],
    [12 * 86_400 + 7200, '12d'],
  ];
  for (const [span, text] of seconds) assert.equal(ageText(span * 1000), text);
});
