import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import * as fc from 'fast-check';
import type { NonceTableWork } from './nonce-table.test-worker.ts';
import { NonceTable, nonceTableBytes } from './nonce-table.ts';

const SEED = 0x2545f491;
const NOW = 1_800_000_000;

function tableFor(entries: number, seed = SEED): NonceTable {
  return new NonceTable(new SharedArrayBuffer(nonceTableBytes(entries)), seed);
}

test('NonceTable.use() agrees with a map of unexpired nonces, also when the table is too small', () => {
  // 64 nonces that differ in any one word, one bucket of 63.
  const word = fc.constantFrom(0, 1, 0x8000_0000, 0xffff_ffff);
  const step = fc.record({
    words: fc.tuple(word, word, word),
    wait: fc.constantFrom(0, 0, 0, 0, 0, 0, 1),
    lifetime: fc.integer({ min: 0, max: 120 }),
  });
  // Around 2038 and 2106, where seconds wrap.
  const start = fc.constantFrom(NOW, 2 ** 31 - 60, 2 ** 32 - 60);
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 400, size: 'max' }),
      start,
      fc.integer(),
      (steps, start, seed) => {
        const table = tableFor(1, seed);
        const model = new Map<string, number>();
        let now = start;
        for (const { words, wait, lifetime } of steps) {
          now += wait;
          for (const [key, until] of model) if (until < now) model.delete(key);
          const key = words.join();
          assert.equal(table.has(nonceOf(...words), now), model.has(key));
          const expected = model.has(key) ? 'used' : model.size === 63 ? 'full' : 'new';
          assert.equal(table.use(nonceOf(...words), now + lifetime, now), expected);
          if (expected === 'new') model.set(key, now + lifetime);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test('NonceTable.use() remembers up to and including the given second, and then forgets', () => {
  const table = tableFor(100);
  const nonce = nonceOf(1, 2, 3);
  assert.equal(table.use(nonce, NOW + 60, NOW), 'new');
  for (const later of [0, 1, 59, 60]) assert.equal(table.use(nonce, NOW + 60, NOW + later), 'used');
  assert.equal(table.use(nonce, NOW + 120, NOW + 61), 'new');
});

test('NonceTable.use() returns full while no entry of the bucket has expired, and keeps those entries', () => {
  const table = tableFor(1);
  for (let i = 0; i < 63; i++) assert.equal(table.use(nonceOf(0, 0, i), NOW + 60, NOW), 'new');
  assert.equal(table.use(nonceOf(0, 0, 63), NOW + 60, NOW), 'full');
  for (let i = 0; i < 63; i++) assert.equal(table.use(nonceOf(0, 0, i), NOW + 60, NOW), 'used');
  assert.equal(table.use(nonceOf(0, 0, 63), NOW + 121, NOW + 61), 'new');
});

test('nonceTableBytes() is enough for the requested number of nonces, random or not', () => {
  for (const nonceAt of [(i: number) => nonceOf(0, 0, i), (i: number) => nonceOf(i * 65_537, i, 7)]) {
    const table = tableFor(20_000);
    let refused = 0;
    for (let i = 0; i < 20_000; i++) if (table.use(nonceAt(i), NOW + 60, NOW) !== 'new') refused++;
    assert.ok(refused <= 2, `${refused} found no room`);
  }
});

test('NonceTable.room is the requested number of nonces, and at least those of a bucket', () => {
  for (const entries of [1000, 20_000, 300_000]) {
    const { room } = tableFor(entries);
    assert.ok(room >= entries && room < entries + 63, `${room} for ${entries}`);
  }
});

test('NonceTable places nonces by seed: an agent cannot choose nonces that fill one bucket', () => {
  const known = tableFor(2000, 1);
  const other = tableFor(2000, 2);
  // With a known seed: nonces that share a bucket with the first.
  const together: Uint8Array[] = [];
  let full = false;
  for (let i = 0; !full; i++) full = known.use(nonceOf(0, 0, i), NOW + 60, NOW) === 'full';
  for (let i = 1_000_000; together.length < 64; i++)
    if (known.use(nonceOf(0, 0, i), NOW + 60, NOW) === 'full') together.push(nonceOf(0, 0, i));
  for (const nonce of together) assert.equal(other.use(nonce, NOW + 60, NOW), 'new');
});

test('NonceTable.use() reports a nonce as new once, whichever of several threads comes first', async () => {
  const threads = 4;
  const nonces = 100_000;
  const memory = new SharedArrayBuffer(nonceTableBytes(nonces));
  const ready = new Int32Array(new SharedArrayBuffer(4));
  const fresh = new Int32Array(new SharedArrayBuffer(4 * nonces));
  await Promise.all(
    Array.from({ length: threads }, () => {
      const work: NonceTableWork = { memory, seed: SEED, ready, threads, nonces, fresh };
      return once(
        new Worker(new URL('./nonce-table.test-worker.ts', import.meta.url), { workerData: work }),
        'exit',
      );
    }),
  );
  const not = fresh.findIndex(times => times !== 1);
  assert.equal(not, -1, `nonce ${not} was new to ${fresh[not]} threads`);
});

function nonceOf(...words: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(12);
  const view = new DataView(bytes.buffer);
  for (const [i, word] of words.entries()) view.setUint32(4 * i, word);
  return bytes;
}
