// The list of what is open: the control thread chooses rows in the workers' shared memory and reads them there; the
// worker adds the texts, which only it has, and says whether a row is still that connection. It says so last: a row
// that was reused since is left out, and no entry ever mixes two connections.

import { shownClusterId } from '../../cluster/cluster-id.ts';
import type { ConnectionRecord } from '../shared/record-ring.ts';
import { CLIENT, HAS_ORIGIN, ORIGIN, PEER, type Rows } from '../shared/rows.ts';
import { HTTP_SLOT } from '../shared/shared-memory.ts';
import type { Verdicts } from '../shared/verdicts.ts';
import { isClient } from '../stages/record-end.ts';
import type { RowTexts } from './worker-messages.ts';
import type { WorkerThread } from './worker-thread.ts';

/** A connection that is open. */
export type OpenRecord = Omit<
  ConnectionRecord,
  'reason' | 'logged' | 'isRequest' | 'detail' | 'detailSeconds' | 'clientEndedFirst'
>;

export interface IdentifiedRecord extends OpenRecord {
  /** Names this one for ever: never another connection, in this process or the next. */
  readonly id: string;
}

/** What an id says: a worker, which of its lives, a row and which use of it. */
interface ConnectionPlace {
  readonly worker: number;
  readonly lifetime: number;
  readonly handle: number;
  readonly generation: number;
}

interface ChosenRow extends ConnectionPlace {
  readonly rows: Rows;
  readonly startedAt: number;
  /** Of one that the HTTP part has: what it says of the last request. */
  readonly verdicts: Verdicts | undefined;
}

type Thread = Pick<WorkerThread, 'number' | 'lifetime' | 'rows' | 'verdicts' | 'describe'>;

/** The newest ones of all workers, newest first. `wanted` is asked for the route slot, 0 while it has none. */
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

/** The worker's part. */
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

/** Undefined when that cannot be an id. */
export function parseConnectionId(id: string): ConnectionPlace | undefined {
  const match = /^([0-9a-z]{1,4})-([0-9a-z]{1,8})-([0-9a-z]{1,6})-([0-9a-z]{1,7})$/.exec(id);
  if (match === null) return undefined;
  const [worker, lifetime, handle, generation] = match.slice(1).map(text => Number.parseInt(text, 36));
  return { worker, lifetime, handle, generation };
}

function connectionId({ worker, lifetime, handle, generation }: ConnectionPlace): string {
  return [worker, lifetime, handle, generation].map(number => number.toString(36)).join('-');
}

function rowsInUse(
  { number, lifetime, rows, verdicts: reported }: Thread,
  wanted: (slot: number) => boolean,
): ChosenRow[] {
  const found: ChosenRow[] = [];
  if (rows === undefined) return found;
  for (let handle = 0; handle < rows.used; handle++) {
    if (!isClient(rows, handle)) continue;
    // Before anything else of the row is read: what the worker says later is about this generation.
    const generation = Atomics.load(rows.generation, handle);
    const verdicts = rows.slot[handle] === HTTP_SLOT ? reported : undefined;
    if (!wanted(verdicts?.slot(handle) ?? rows.slot[handle])) continue;
    const startedAt = rows.startedAt[handle];
    found.push({ rows, verdicts, worker: number, lifetime, handle, generation, startedAt });
  }
  return found;
}

/** Sorting plain numbers is much faster than sorting rows, of which only the few that are wanted are sorted then. */
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

/** All but the texts. It counts only if the worker says afterwards that the row is still that connection. */
function readRow({ rows, verdicts, handle }: ChosenRow, now: number): Omit<OpenRecord, keyof RowTexts> {
  const place = (at: number) => {
    const from = rows.addressAt(handle, at);
    return { address: rows.addresses.slice(from, from + 16), port: rows.portOf(handle, at) };
  };
  return {
    listener: rows.listener[handle],
    slot: verdicts?.slot(handle) ?? rows.slot[handle],
    backendSlot: verdicts?.backendSlot(handle) ?? rows.backendSlot[handle],
    protocol: rows.protocol[handle],
    peer: place(PEER),
    client: place(CLIENT),
    origin: (rows.flags[handle] & HAS_ORIGIN) === 0 ? undefined : place(ORIGIN),
    bytesIn: rows.bytesIn[handle] + (verdicts?.bytesIn(handle) ?? 0),
    bytesOut: rows.bytesOut[handle] + (verdicts?.bytesOut(handle) ?? 0),
    // The worker's clock may be ahead of ours by less than a millisecond.
    ms: Math.max(0, now - rows.startedAt[handle]),
    dialMs: verdicts?.dialMs(handle) ?? rows.dialMs[handle],
  };
}
