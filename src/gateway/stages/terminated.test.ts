import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { Rows } from '../shared/rows.ts';
import { TOTAL_CONNECTIONS, TOTAL_PENDING } from '../shared/shared-memory.ts';
import { GATEWAY_SCOPE, PENDING_SCOPE } from '../shared/source-counts.ts';
import { isCounted, recordEnd } from './record-end.ts';
import { CLIENT_HANDLE, newWork, takePart } from './terminated.samples.ts';

/** Each is a try at hitting one of the few moments between a count and its flag. */
const TERMINATIONS = 40;
const AT_ONCE = 4;

test('wherever a thread is terminated, its row says which counts it holds', async () => {
  for (let done = 0; done < TERMINATIONS; done += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, terminateOne));
  }
});

async function terminateOne(): Promise<void> {
  const work = newWork();
  const worker = new Worker(new URL('./terminated.test-worker.ts', import.meta.url), { workerData: work });
  const failed = once(worker, 'error').then(([error]) => assert.fail(error as Error));
  failed.catch(() => {});
  while (Atomics.load(work.served, 0) < 10_000) await Promise.race([sleep(1), failed]);
  await sleep(Math.random() * 5);
  await worker.terminate();
  const { rows, ...recorder } = takePart(work);
  for (const table of [rows, new Rows(work.arrivals)])
    if (isCounted(table, CLIENT_HANDLE)) recordEnd(table, recorder, CLIENT_HANDLE, 'shutdown', 0, 'none');
  const source = new Uint8Array(16).fill(1);
  assert.deepEqual(
    {
      connections: work.totals[TOTAL_CONNECTIONS],
      pending: work.totals[TOTAL_PENDING],
      ofSource: recorder.sources.count(GATEWAY_SCOPE, source, 0),
      pendingOfSource: recorder.sources.count(PENDING_SCOPE, source, 0),
    },
    { connections: 0, pending: 0, ofSource: 0, pendingOfSource: 0 },
  );
}
