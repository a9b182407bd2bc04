import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import * as fc from 'fast-check';
import type { SourceCountsWork } from './source-counts.test-worker.ts';
import { SourceCounts, sourceCountsBytes } from './source-counts.ts';

const SEED = 0x2545f491;

test('SourceCounts agrees with a map, also when the table is too small', () => {
  // 48 keys, one bucket of 42; any two addresses may differ in any one word.
  const word = fc.constantFrom([0, 0, 0, 0], [0x80, 0, 0, 1]);
  const address = fc.tuple(word, word, word, word).map(words => words.flat());
  const operation = fc.record({
    op: fc.constantFrom('add', 'add', 'remove', 'count'),
    scope: fc.constantFrom(0, 1, 0xffff_ffff),
    address,
    offset: fc.nat({ max: 5 }),
  });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 500, size: 'max' }), fc.integer(), (operations, seed) => {
      const counts = new SourceCounts(new SharedArrayBuffer(sourceCountsBytes(1)), seed);
      const model = new Map<string, number>();
      for (const { op, scope, address, offset } of operations) {
        const bytes = new Uint8Array(offset + 20).fill(0xaa);
        bytes.set(address, offset);
        const key = `${scope} ${address.join('.')}`;
        const before = model.get(key) ?? 0;
        if (op === 'count') {
          assert.equal(counts.count(scope, bytes, offset), before);
        } else if (op === 'add') {
          const full = before === 0 && model.size === 42;
          assert.equal(counts.add(scope, bytes, offset), full ? -1 : before + 1);
          if (!full) model.set(key, before + 1);
        } else {
          counts.remove(scope, bytes, offset);
          if (before > 1) model.set(key, before - 1);
          else model.delete(key);
        }
      }
    }),
    { numRuns: 200 },
  );
});

test('sourceCountsBytes() is enough for the requested number of sources, neighbours or not', () => {
  for (const stride of [1, 256, 65_537]) {
    const entries = 20_000;
    const counts = new SourceCounts(new SharedArrayBuffer(sourceCountsBytes(entries)), SEED);
    let refused = 0;
    for (let i = 0; i < entries; i++) if (counts.add(0, addressOf(i * stride), 0) === -1) refused++;
    assert.ok(refused <= 2, `${refused} of ${entries} found no room with stride ${stride}`);
  }
});

test('SourceCounts reuses entries, so that a stream of new sources needs no more room', () => {
  const counts = new SourceCounts(new SharedArrayBuffer(sourceCountsBytes(100)), SEED);
  for (let i = 0; i < 20_000; i++) {
    assert.equal(counts.add(7, addressOf(i), 0), 1);
    if (i >= 50) counts.remove(7, addressOf(i - 50), 0);
  }
});

test('SourceCounts places addresses by seed', () => {
  // Addresses that overfill one bucket under one seed must not do so under another; otherwise they could be prepared.
  const bytes = sourceCountsBytes(200);
  const known = new SourceCounts(new SharedArrayBuffer(bytes), 1);
  const inside: Uint8Array[] = [];
  for (let i = 0; i < 2000; i++) if (known.add(0, addressOf(i), 0) === 1) inside.push(addressOf(i));
  const outside = addressOf(2000);
  const together = inside.filter(address => {
    known.remove(0, address, 0);
    const freed = known.add(0, outside, 0) === 1;
    if (freed) known.remove(0, outside, 0);
    known.add(0, address, 0);
    return freed;
  });
  assert.equal(together.length, 42);
  const other = new SourceCounts(new SharedArrayBuffer(bytes), 2);
  for (const address of [...together, outside]) assert.equal(other.add(0, address, 0), 1);
});

test('SourceCounts is exact with several threads', async () => {
  const threads = 4;
  const rounds = 100_000;
  // Two buckets for all sources: the greatest possible contention.
  const memory = new SharedArrayBuffer(sourceCountsBytes(40));
  const ready = new Int32Array(new SharedArrayBuffer(4));
  const answers = new Int32Array(new SharedArrayBuffer(4 * (threads * rounds + 1)));
  const held = new Int32Array(new SharedArrayBuffer(4 * 20));
  await Promise.all(
    Array.from({ length: threads }, (_, thread) => {
      const work: SourceCountsWork = { memory, seed: SEED, ready, threads, thread, rounds, answers, held };
      return once(
        new Worker(new URL('./source-counts.test-worker.ts', import.meta.url), { workerData: work }),
        'exit',
      );
    }),
  );
  const twice = answers.findIndex((times, answer) => times !== (answer === 0 ? 0 : 1));
  assert.equal(twice, -1, `add() answered ${twice} to ${answers[twice]} threads`);
  const counts = new SourceCounts(memory, SEED);
  for (const [source, count] of held.entries()) {
    assert.equal(counts.count(1, new Uint8Array(16).fill(source + 1), 0), count);
  }
});

function addressOf(n: number): Uint8Array {
  const bytes = new Uint8Array(16);
  new DataView(bytes.buffer).setUint32(12, n);
  bytes.fill(0xff, 10, 12);
  return bytes;
}
