// One of the threads of token-bucket.test.ts: takes all it can get at each step of its own clock.

import { workerData } from 'node:worker_threads';
import { TokenBuckets } from './token-bucket.ts';
import { waitForAll } from './wait-for-all.test-worker.ts';

export interface TokenBucketWork {
  readonly memory: SharedArrayBuffer;
  readonly ready: Int32Array;
  /** Where each thread writes how many tokens it got. */
  readonly taken: Int32Array;
  readonly thread: number;
  readonly slot: number;
  readonly rate: number;
  readonly stepMs: number;
  readonly steps: number;
}

const { memory, ready, taken, thread, slot, rate, stepMs, steps } = workerData as TokenBucketWork;
const buckets = new TokenBuckets(memory);

waitForAll(ready, taken.length);
for (let step = 0; step <= steps; step++) {
  while (buckets.take(slot, rate, step * stepMs)) taken[thread]++;
}
