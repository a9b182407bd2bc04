import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { addRecent, RECENT_COUNT_WORDS, recentCount } from './recent-count.ts';

const NOW = 1_800_000_000;
const AT = 3;

function given(): Int32Array {
  return new Int32Array(new SharedArrayBuffer((AT + RECENT_COUNT_WORDS + 2) * 4));
}

test('recentCount() counts every unexpired entry, and none for more than 8 s longer', () => {
  const step = fc.record({
    wait: fc.oneof({ arbitrary: fc.nat({ max: 3 }), weight: 20 }, fc.nat({ max: 400 })),
    lifetime: fc.integer({ min: 0, max: 121 }),
  });
  const start = fc.oneof(
    fc.constantFrom(NOW, 2 ** 31 - 60, 2 ** 32 - 60),
    fc.integer({ min: NOW, max: NOW + 16 }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400, size: 'max' }), start, (steps, start) => {
      const words = given();
      const ends: number[] = [];
      let now = start;
      for (const { wait, lifetime } of steps) {
        now += wait;
        const count = recentCount(words, AT, now);
        assert.ok(count >= ends.filter(until => until >= now).length, 'forgotten too early');
        assert.ok(count <= ends.filter(until => until + 8 >= now).length, 'remembered too long');
        assert.ok(addRecent(words, AT, now + lifetime, now));
        ends.push(now + lifetime);
      }
      // Writes nothing outside its own words.
      assert.deepEqual(
        [...words.subarray(0, AT), ...words.subarray(AT + RECENT_COUNT_WORDS)],
        Array(AT + 2).fill(0),
      );
    }),
    { numRuns: 300 },
  );
});

test('addRecent() counts no more than `most`', () => {
  const words = given();
  for (let i = 0; i < 5; i++) assert.equal(addRecent(words, AT, NOW + 60, NOW, 5), true);
  assert.equal(addRecent(words, AT, NOW + 60, NOW, 5), false);
  assert.equal(recentCount(words, AT, NOW), 5);
  assert.equal(addRecent(words, AT, NOW + 60, NOW, 6), true);
  assert.equal(addRecent(words, AT, NOW + 160, NOW + 80, 1), true);
});

test('recentCount() starts over when the clock is set back, and tolerates one that is off by a moment', () => {
  const words = given();
  addRecent(words, AT, NOW + 60, NOW);
  assert.equal(recentCount(words, AT, NOW - 1), 1);
  addRecent(words, AT, NOW + 59, NOW - 1);
  assert.equal(recentCount(words, AT, NOW), 2);
  const earlier = NOW - 3600;
  assert.equal(recentCount(words, AT, earlier), 0);
  addRecent(words, AT, earlier + 60, earlier);
  assert.equal(recentCount(words, AT, earlier + 60), 1);
  assert.equal(recentCount(words, AT, earlier + 69), 0);
});
