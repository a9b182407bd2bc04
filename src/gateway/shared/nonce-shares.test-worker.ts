// One of the threads of nonce-shares.test.ts: one cluster floods, with an occasional nonce of another cluster in
// between.

import { workerData } from 'node:worker_threads';
import { NonceShares } from './nonce-shares.ts';
import { NonceTable } from './nonce-table.ts';
import { CLUSTER_FIELDS, SharedSlots } from './shared-memory.ts';
import { waitForAll } from './wait-for-all.test-worker.ts';

export interface NonceSharesWork {
  readonly memory: SharedArrayBuffer;
  readonly page: SharedArrayBuffer;
  readonly ready: Int32Array;
  readonly threads: number;
  readonly thread: number;
  /** How many nonces the first and the second cluster got. */
  readonly taken: Int32Array;
}

const { memory, page, ready, threads, thread, taken } = workerData as NonceSharesWork;
const clusters = new SharedSlots(CLUSTER_FIELDS);
clusters.addPage(page);
const table = new NonceTable(memory, 1);
const shares = new NonceShares(table, clusters);
const nonce = new Uint8Array(12);
const view = new DataView(nonce.buffer);
view.setUint32(0, thread);

function use(slot: number, number: number): void {
  view.setUint32(4, slot);
  view.setUint32(8, number);
  if (shares.take(slot, 2, 60, 0) && table.use(nonce, 60, 0) === 'new') Atomics.add(taken, slot - 1, 1);
}

waitForAll(ready, threads);
for (let i = 0; i < 5000; i++) {
  use(1, i);
  if (i % 100 === 99) use(2, i);
}
