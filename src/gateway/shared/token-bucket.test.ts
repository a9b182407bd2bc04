import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import * as fc from 'fast-check';
import type { TokenBucketWork } from './token-bucket.test-worker.ts';
import { TOKEN_BUCKET_BYTES, TokenBuckets } from './token-bucket.ts';

const START = 12_345.5;

test('take() starts with a full bucket and then gives tokens at the rate', () => {
  const buckets = bucketsOf(1);
  assert.equal(takeAll(buckets, 0, 5, START), 5);
  assert.equal(takeAll(buckets, 0, 5, START + 199), 0);
  assert.equal(takeAll(buckets, 0, 5, START + 200), 1);
  assert.equal(takeAll(buckets, 0, 5, START + 1000), 4);
  assert.equal(takeAll(buckets, 0, 5, START + 1e9), 5, 'no more than the burst however long the pause');
});

test('take() keeps the buckets of different slots apart', () => {
  const buckets = bucketsOf(3);
  assert.equal(takeAll(buckets, 1, 7, START), 7);
  assert.equal(takeAll(buckets, 0, 3, START), 3);
  assert.equal(takeAll(buckets, 2, 2, START), 2);
});

test('take() neither gives nor destroys tokens when the clock goes back', () => {
  const buckets = bucketsOf(1);
  assert.equal(takeAll(buckets, 0, 10, START), 10);
  assert.equal(takeAll(buckets, 0, 10, START - 1e6), 0);
  assert.equal(takeAll(buckets, 0, 10, START), 0, 'the same time is not counted twice');
  assert.equal(takeAll(buckets, 0, 10, START + 500), 5);
  assert.equal(buckets.take(0, 10, START + 1000), true);
  assert.equal(takeAll(buckets, 0, 10, START), 4, 'what was there still is');
});

test('take() applies a new rate at once', () => {
  const buckets = bucketsOf(1);
  assert.equal(buckets.take(0, 100, START), true);
  assert.equal(takeAll(buckets, 0, 3, START), 3, 'what is beyond a lower rate is gone');
  assert.equal(takeAll(buckets, 0, 100, START), 0, 'a higher rate gives nothing by itself');
  assert.equal(takeAll(buckets, 0, 100, START + 100), 10);
  assert.equal(buckets.take(0, 0, START + 1000), false);
});

test('take() gives at most rate x time + burst in any window, and no less when called often enough', () => {
  const pause = fc.oneof(
    fc.constant(0),
    fc.double({ min: 0, max: 3000, noNaN: true }),
    fc.double({ min: -500, max: 500, noNaN: true }),
  );
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.array(pause, { maxLength: 150, size: 'max' }),
      (rate, pauses) => {
        const buckets = bucketsOf(1);
        const taken: number[] = [];
        let now = START;
        /** Time counts from the first use, whenever that is. */
        let latest = -Infinity;
        /** The expected tokens, computed independently. */
        let tokens = rate;
        for (const pause of pauses) {
          now += pause;
          tokens = Math.min(rate, tokens + (Math.max(0, now - latest) * rate) / 1000);
          latest = Math.max(latest, now);
          if (buckets.take(0, rate, now)) {
            assert.ok(tokens >= 1 - 1e-6);
            tokens -= 1;
            taken.push(latest);
          } else {
            assert.ok(tokens < 1 + 1e-6);
          }
        }
        for (let from = 0; from < taken.length; from++) {
          for (let to = from; to < taken.length; to++) {
            assert.ok(to - from + 1 <= rate + ((taken[to] - taken[from]) * rate) / 1000 + 1e-6);
          }
        }
      },
    ),
    { numRuns: 300 },
  );
});

test('take() is exact with several threads', async () => {
  const threads = 4;
  const rate = 65_536;
  // 125 ms are exactly 8,192 tokens, so nothing is rounded. Every thread takes all it can get, so nothing overflows.
  const stepMs = 125;
  const steps = 80;
  const memory = new SharedArrayBuffer(2 * TOKEN_BUCKET_BYTES);
  const ready = new Int32Array(new SharedArrayBuffer(4));
  const taken = new Int32Array(new SharedArrayBuffer(4 * threads));
  await Promise.all(
    Array.from(taken, (_, thread) => {
      const work: TokenBucketWork = { memory, ready, taken, thread, slot: 1, rate, stepMs, steps };
      return once(
        new Worker(new URL('./token-bucket.test-worker.ts', import.meta.url), { workerData: work }),
        'exit',
      );
    }),
  );
  assert.equal(
    taken.reduce((sum, count) => sum + count, 0),
    rate + (rate * stepMs * steps) / 1000,
  );
});

function bucketsOf(slots: number): TokenBuckets {
  return new TokenBuckets(new SharedArrayBuffer(slots * TOKEN_BUCKET_BYTES));
}

function takeAll(buckets: TokenBuckets, slot: number, rate: number, now: number): number {
  let count = 0;
  while (buckets.take(slot, rate, now)) count++;
  return count;
}
