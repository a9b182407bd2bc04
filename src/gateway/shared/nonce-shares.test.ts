import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import * as fc from 'fast-check';
import type { NonceSharesWork } from './nonce-shares.test-worker.ts';
import { NonceShares } from './nonce-shares.ts';
import { NonceTable, nonceTableBytes } from './nonce-table.ts';
import { CLUSTER_FIELDS, SharedSlots } from './shared-memory.ts';

const NOW = 1_800_000_000;

/** One third of the room is guaranteed. */
function given(room: number) {
  const clusters = new SharedSlots(CLUSTER_FIELDS);
  for (let page = 0; page < 10; page++) clusters.addPage(SharedSlots.newPage(CLUSTER_FIELDS));
  return new NonceShares({ countWords: new Int32Array(new SharedArrayBuffer(1024)), room }, clusters);
}

/** Takes until refused. */
function fill(shares: NonceShares, slot: number, clusters: number, now = NOW): number {
  let taken = 0;
  while (shares.take(slot, clusters, now + 60, now)) taken++;
  return taken;
}

test('NonceShares: one cluster alone gets a large part, and leaves the others more than enough', () => {
  const shares = given(300_000);
  assert.equal(fill(shares, 1, 10), 133_334);
  assert.equal(fill(shares, 2, 10), 44_444);
  // Its own share is still used up, and becomes free with time.
  assert.equal(fill(shares, 1, 10), 0);
  assert.equal(fill(shares, 1, 10, NOW + 69), 133_334);
});

test('NonceShares: each cluster gets its guaranteed share, however many take all they can get', () => {
  const clusters = 10_000;
  const shares = given(300_000);
  let taken = 0;
  for (let slot = 1; slot <= clusters; slot++) {
    const share = fill(shares, slot, clusters);
    assert.ok(share >= 10, `cluster ${slot} got ${share}`);
    taken += share;
  }
  assert.ok(taken <= 300_000);
});

test('NonceShares: no cluster below its guaranteed share is refused, and all together fit the room', () => {
  const room = 90;
  const step = fc.record({
    slot: fc.integer({ min: 1, max: 5 }),
    times: fc.constantFrom(1, 1, 1, 100),
    wait: fc.constantFrom(0, 0, 0, 1, 10, 60),
    lifetime: fc.integer({ min: 0, max: 121 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200, size: 'max' }), steps => {
      const shares = given(room);
      const live: { slot: number; until: number }[] = [];
      let now = NOW;
      for (const { slot, times, wait, lifetime } of steps) {
        now += wait;
        for (let i = 0; i < times; i++) {
          // Counted for up to 8 s after they expire.
          const own = live.filter(one => one.slot === slot && one.until + 8 >= now).length;
          const taken = shares.take(slot, 5, now + lifetime, now);
          assert.ok(taken || own >= room / 3 / 5, `cluster ${slot} has ${own} and is refused`);
          if (taken) live.push({ slot, until: now + lifetime });
        }
        const all = live.filter(({ until }) => until >= now).length;
        assert.ok(all <= room, `${all} live`);
      }
    }),
    { numRuns: 200 },
  );
});

test('NonceShares: one cluster floods from several threads, and another still gets its room in every thread', async () => {
  const threads = 4;
  const room = 3000;
  const memory = new SharedArrayBuffer(nonceTableBytes(room));
  const page = SharedSlots.newPage(CLUSTER_FIELDS);
  const ready = new Int32Array(new SharedArrayBuffer(4));
  const taken = new Int32Array(new SharedArrayBuffer(8));
  await Promise.all(
    Array.from({ length: threads }, (_, thread) => {
      const work: NonceSharesWork = { memory, page, ready, threads, thread, taken };
      return once(
        new Worker(new URL('./nonce-shares.test-worker.ts', import.meta.url), { workerData: work }),
        'exit',
      );
    }),
  );
  const clusters = new SharedSlots(CLUSTER_FIELDS);
  clusters.addPage(page);
  // Two thirds of the common room; threads may check at the same moment.
  const most = (2 / 3) * (2 / 3) * new NonceTable(memory, 0).room;
  assert.ok(taken[0] > 0.9 * most && taken[0] < most + threads * 3, `${taken[0]} of ${most}`);
  assert.equal(taken[1], threads * 50);
});
