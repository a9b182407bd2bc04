// One of the threads of nonce-table.test.ts: all use the same nonces in the same order, and count the results.

import { workerData } from 'node:worker_threads';
import { NonceTable } from './nonce-table.ts';
import { waitForAll } from './wait-for-all.test-worker.ts';

export interface NonceTableWork {
  readonly memory: SharedArrayBuffer;
  readonly seed: number;
  readonly ready: Int32Array;
  readonly threads: number;
  readonly nonces: number;
  /** How often each nonce was new. */
  readonly fresh: Int32Array;
}

const { memory, seed, ready, threads, nonces, fresh } = workerData as NonceTableWork;
const table = new NonceTable(memory, seed);
const nonce = new Uint8Array(12);
const view = new DataView(nonce.buffer);

waitForAll(ready, threads);
for (let i = 0; i < nonces; i++) {
  view.setUint32(8, i);
  if (table.use(nonce, 60, 0) === 'new') Atomics.add(fresh, i, 1);
}
