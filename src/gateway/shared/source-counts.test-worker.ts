// One of the threads of source-counts.test.ts: all count one source up, then each adds and removes sources at random.

import { workerData } from 'node:worker_threads';
import { SourceCounts } from './source-counts.ts';
import { waitForAll } from './wait-for-all.test-worker.ts';

export interface SourceCountsWork {
  readonly memory: SharedArrayBuffer;
  readonly seed: number;
  readonly ready: Int32Array;
  readonly threads: number;
  readonly thread: number;
  readonly rounds: number;
  /** How often add() returned each count, in any thread, for the first source in scope 0. */
  readonly answers: Int32Array;
  /** How many of each source in scope 1 the threads hold at the end. */
  readonly held: Int32Array;
}

const { memory, seed, ready, threads, thread, rounds, answers, held } = workerData as SourceCountsWork;
const counts = new SourceCounts(memory, seed);
const sources = Array.from({ length: held.length }, (_, i) => new Uint8Array(16).fill(i + 1));
const mine = new Int32Array(held.length);

waitForAll(ready, threads);
for (let i = 0; i < rounds; i++) Atomics.add(answers, counts.add(0, sources[0], 0), 1);
let random = thread + 1;
for (let i = 0; i < rounds; i++) {
  random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
  const source = (random >>> 16) % sources.length;
  if (mine[source] > 0 && random >>> 31 === 1) {
    counts.remove(1, sources[source], 0);
    mine[source]--;
  } else {
    counts.add(1, sources[source], 0);
    mine[source]++;
  }
}
for (const [source, count] of mine.entries()) Atomics.add(held, source, count);
