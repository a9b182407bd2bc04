// What the two threads of terminated.test.ts share.

import { NonceTable, nonceTableBytes } from '../shared/nonce-table.ts';
import { newRecordRing, RecordWriter } from '../shared/record-ring.ts';
import { Rows } from '../shared/rows.ts';
import {
  BACKEND_FIELDS,
  BucketPages,
  CLUSTER_FIELDS,
  RequestCounters,
  RouteCounters,
  SharedSlots,
  TOTAL_FIELDS,
} from '../shared/shared-memory.ts';
import { SourceCounts, sourceCountsBytes } from '../shared/source-counts.ts';
import type { Shared } from './data-path.ts';

export const LISTENING = 3;
export const CLIENT_HANDLE = 4;
const CAPACITY = 8;
const SEED = 1;

export type TerminatedWork = ReturnType<typeof newWork>;

export function newWork() {
  return {
    rows: Rows.memory(CAPACITY),
    arrivals: Rows.memory(CAPACITY),
    totals: new Int32Array(new SharedArrayBuffer(TOTAL_FIELDS * 4)),
    served: new Int32Array(new SharedArrayBuffer(4)),
    counters: RouteCounters.newPage(),
    clusters: SharedSlots.newPage(CLUSTER_FIELDS),
    backends: SharedSlots.newPage(BACKEND_FIELDS),
    buckets: BucketPages.newPage(),
    sources: new SharedArrayBuffer(sourceCountsBytes(10)),
    nonces: new SharedArrayBuffer(nonceTableBytes(10)),
  };
}

export function takePart(work: TerminatedWork): Shared {
  const shared = {
    rows: new Rows(work.rows),
    totals: work.totals,
    counters: new RouteCounters(),
    requests: new RequestCounters(),
    clusters: new SharedSlots(CLUSTER_FIELDS),
    backends: new SharedSlots(BACKEND_FIELDS),
    buckets: new BucketPages(),
    sources: new SourceCounts(work.sources, SEED),
    nonces: new NonceTable(work.nonces, SEED),
    records: new RecordWriter(newRecordRing(), () => {}),
  };
  shared.counters.addPage(work.counters);
  shared.clusters.addPage(work.clusters);
  shared.backends.addPage(work.backends);
  shared.buckets.addPage(work.buckets);
  return shared;
}
