import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { nearest } from './nearest.ts';

const keys = ['listen', 'admin', 'clusters', 'timeouts', 'halfClosed', 'on', 'only', 'backends', 'id'];

test('nearest() finds the intended word behind a typing mistake', () => {
  const slips = {
    listne: 'listen',
    Listen: 'listen',
    cluster: 'clusters',
    halfclosed: 'halfClosed',
    backend: 'backends',
  };
  for (const [slip, meant] of Object.entries({ ...slips, onn: 'on', timeout: 'timeouts', amdin: 'admin' })) {
    assert.equal(nearest(slip, keys), meant, slip);
  }
});

test('nearest() prefers the nearest, and the first of equals', () => {
  assert.equal(nearest('onl', ['on', 'only']), 'on');
  assert.equal(nearest('abcx', ['abcd', 'abce']), 'abcd');
});

test('nearest() finds nothing when nothing is near', () => {
  for (const word of ['', 'frontend', 'x', 'ab', 'xyz'.repeat(100_000)]) {
    assert.equal(nearest(word, keys), undefined, word.slice(0, 20));
  }
  assert.equal(nearest('v3', ['v1', 'v2', 'none']), undefined);
});

test('nearest() tolerates one extra, missing, changed or swapped letter in words of four letters or more', () => {
  const word = fc.stringMatching(/^[a-z]{4,12}$/);
  const slip = fc.tuple(word, fc.nat(), fc.constantFrom('drop', 'double', 'change', 'swap'));
  fc.assert(
    fc.property(slip, ([word, seed, how]) => {
      const i = seed % (word.length - 1);
      const [head, one, two, tail] = [word.slice(0, i), word[i], word[i + 1], word.slice(i + 2)];
      const changed = {
        drop: head + two + tail,
        double: head + one + one + two + tail,
        change: `${head}-${two}${tail}`,
        swap: head + two + one + tail,
      };
      assert.equal(nearest(changed[how as keyof typeof changed], [word]), word);
    }),
  );
});
