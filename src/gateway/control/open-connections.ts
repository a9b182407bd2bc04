// Lists open connections. The control thread chooses rows in the workers' shared memory and reads them there; then the
// worker adds the texts, which only it has, and confirms that a row is still the same connection. Rows reused meanwhile
// are left out, so that no entry ever mixes two connections.

import { shownClusterId } from '../../cluster/cluster-id.ts';
import type { ConnectionRecord } from '../shared/record-ring.ts';
import { AGENT_WITH_ORIGIN, CLIENT, ORIGIN, PEER, type Rows } from '../shared/rows.ts';
import { FIRST_SLOT } from '../shared/shared-memory.ts';
import { isClient } from '../stages/record-end.ts';
import type { RowTexts } from './worker-messages.ts';
import type { WorkerThread } from './worker-thread.ts';

export type OpenRecord = Omit<
  ConnectionRecord,
  'reason' | 'logged' | 'detail' | 'detailSeconds' | 'clientEndedFirst'
>;

export interface IdentifiedRecord extends OpenRecord {
  /** Unique: it never names another connection, in this process or a later one. */
  readonly id: string;
}

/** The content of an id: a worker, its lifetime, a row and its generation. */
interface ConnectionPlace {
  readonly worker: number;
  readonly lifetime: number;
  readonly handle: number;
  readonly generation: number;
}

interface ChosenRow extends ConnectionPlace {
  readonly rows: Rows;
  readonly startedAt: number;
  readonly isOurs: boolean;
}

type Thread = Pick<WorkerThread, 'number' | 'lifetime' | 'rows' | 'describe'>;

/** The newest connections of all workers, newest first. `wanted` filters by route slot, 0 while there is none. */
export async function openRecords(
  threads: readonly Thread[],
  limit: number,
  wanted: (slot: number) => boolean,
): Promise<IdentifiedRecord[]> {
  const chosen = newest(
    threads.flatMap(thread => rowsInUse(thread, wanted)),
    limit,
  );
  const now = performance.timeOrigin + performance.now();
  const read = chosen.map(row => ({ id: connectionId(row), ...readRow(row, now) }));
  const texts: (RowTexts | null)[] = [];
  await Promise.all(
    threads.map(async thread => {
      const own = [...chosen.keys()].filter(index => chosen[index].worker === thread.number);
      if (own.length === 0) return;
      const { lifetime } = chosen[own[0]];
      const answers = await thread.describe(
        lifetime,
        own.map(index => chosen[index]),
      );
      for (const [at, index] of own.entries()) texts[index] = answers[at];
    }),
  );
  return read.flatMap((record, index) => {
    const text = texts[index];
    return text === null ? [] : [{ ...record, ...text }];
  });
}

/** Runs in the worker. */
export function describeRows(
  rows: Rows,
  { handles, generations }: { readonly handles: Int32Array; readonly generations: Uint32Array },
): (RowTexts | null)[] {
  return Array.from(handles, (handle, index) => {
    if (rows.generation[handle] !== generations[index] || !isClient(rows, handle)) return null;
    const id = rows.clusterId[handle];
    return { host: rows.host[handle] ?? '', clusterId: id === undefined ? '' : shownClusterId(id) };
  });
}

/** undefined if the text is not an id. */
export function parseConnectionId(id: string): ConnectionPlace | undefined {
  const match = /^([0-9a-z]{1,4})-([0-9a-z]{1,8})-([0-9a-z]{1,6})-([0-9a-z]{1,7})$/.exec(id);
  if (match === null) return undefined;
  const [worker, lifetime, handle, generation] = match.slice(1).map(text => Number.parseInt(text, 36));
  return { worker, lifetime, handle, generation };
}

function connectionId({ worker, lifetime, handle, generation }: ConnectionPlace): string {
  return [worker, lifetime, handle, generation].map(number => number.toString(36)).join('-');
}

function rowsInUse({ number, lifetime, rows }: Thread, wanted: (slot: number) => boolean): ChosenRow[] {
  const found: ChosenRow[] = [];
  if (rows === undefined) return found;
  for (let handle = 0; handle < rows.used; handle++) {
    if (!isClient(rows, handle)) continue;
    // Read before the rest of the row: the worker later confirms this generation.
    const generation = Atomics.load(rows.generation, handle);
    // Threads of our own are not its route.
    const isOurs = rows.slot[handle] < FIRST_SLOT;
    if (!wanted(isOurs ? 0 : rows.slot[handle])) continue;
    const startedAt = rows.startedAt[handle];
    found.push({ rows, isOurs, worker: number, lifetime, handle, generation, startedAt });
  }
  return found;
}

/** Sorting plain numbers is much faster than sorting rows, so only the few newest rows are sorted. */
function newest(found: readonly ChosenRow[], limit: number): ChosenRow[] {
  const newestFirst = (a: ChosenRow, b: ChosenRow) => b.startedAt - a.startedAt;
  if (found.length <= limit) return found.toSorted(newestFirst);
  const times = Float64Array.from(found, row => row.startedAt).toSorted();
  const oldest = times[times.length - limit];
  return found
    .filter(row => row.startedAt >= oldest)
    .toSorted(newestFirst)
    .slice(0, limit);
}

/** All but the texts. Valid only if the worker then confirms that the row is still the same connection. */
function readRow({ rows, isOurs, handle }: ChosenRow, now: number): Omit<OpenRecord, keyof RowTexts> {
  const place = (at: number) => {
    const from = rows.addressAt(handle, at);
    return { address: rows.addresses.slice(from, from + 16), port: rows.portOf(handle, at) };
  };
  return {
    listener: rows.listener[handle],
    slot: isOurs ? 0 : rows.slot[handle],
    backendSlot: isOurs ? 0 : rows.backendSlot[handle],
    protocol: rows.protocol[handle],
    peer: place(PEER),
    client: place(CLIENT),
    origin: rows.client[handle] === AGENT_WITH_ORIGIN ? place(ORIGIN) : undefined,
    bytesIn: rows.bytesIn[handle],
    bytesOut: rows.bytesOut[handle],
    // The worker's clock may be ahead of ours by less than a millisecond.
    ms: Math.max(0, now - rows.startedAt[handle]),
    dialMs: isOurs ? -1 : rows.dialMs[handle],
  };
}
