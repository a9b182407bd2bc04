// The thread of terminated.test.ts: accepts connections that end without a byte, or are given away and end there, as fast
// as it can, until terminated.

import { workerData } from 'node:worker_threads';
import { AGAIN, type Reactor } from '../io/reactor.ts';
import { LISTENER, Rows } from '../shared/rows.ts';
import { compileListener } from '../table/listener-table.ts';
import { acceptAll } from './accept.ts';
import type { Settings } from './data-path.ts';
import { Dispatcher } from './dispatch.ts';
import { recordEnd } from './record-end.ts';
import { CLIENT_HANDLE, LISTENING, type TerminatedWork, takePart } from './terminated.samples.ts';

const settings: Settings = {
  helloMs: 5000,
  connectMs: 3000,
  idleMs: undefined,
  halfClosedMs: undefined,
  keepaliveMs: undefined,
  stalledMs: undefined,
  retries: 0,
  connections: 100,
  pending: 100,
  pendingPerSource: 50,
  clientFiles: 4096,
  perSource: 50,
  log: 'all',
};

const work = workerData as TerminatedWork;
const shared = takePart(work);
let isWaiting = false;
let isGiven = false;
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const reactor = {
  capacity: shared.rows.capacity,
  now: () => 1_000_000,
  wakeAt: () => {},
  descriptor: (handle: number) => handle,
  soon: () => {},
  accept: () => {
    const handle = isWaiting ? CLIENT_HANDLE : AGAIN;
    isWaiting = false;
    return handle;
  },
  peerAddress: (_: number, into: Uint8Array, at: number) => {
    into.fill(1, at, at + 16);
    return 40_000;
  },
  localAddress: () => 443,
  read: (_: number, into: Uint8Array, from: number) => {
    isGiven = !isGiven;
    if (!isGiven) return 0;
    into.set(preface, from);
    return preface.length;
  },
  give: (handle: number) => handle,
  close: () => {},
  reset: () => {},
  shutdown: () => {},
} as unknown as Reactor;
const nothing = () => {};
const path = new Dispatcher(reactor, shared, settings, {
  message: nothing,
  failed: nothing,
  uplinkRefused: nothing,
  fault: error => {
    throw error;
  },
});
path.listeners[0] = compileListener({ on: ':1', balancers: [], agents: [], idTlv: [] });
const arrivals = new Rows(work.arrivals);
path.mayGive = true;
path.receiver = {
  arrivals,
  owned: new Uint8Array(arrivals.capacity),
  take: ({ at }) => recordEnd(arrivals, shared, at, 'done', reactor.now(), 'all'),
};
path.rows.state[LISTENING] = LISTENER;
path.rows.listener[LISTENING] = 0;
for (;;) {
  isWaiting = true;
  acceptAll(path, LISTENING);
  Atomics.add(work.served, 0, 1);
}
