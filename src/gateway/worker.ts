// Entry point of a worker thread: one reactor, one data path, and the control thread's messages.

import { flushCompileCache } from 'node:module';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { formatIpPort } from '../wire/ip-address.ts';
import { describeRows } from './control/open-connections.ts';
import type {
  FromWorker,
  Pages,
  RowTexts,
  TableMessage,
  ToWorker,
  WorkerStart,
} from './control/worker-messages.ts';
import { FaultLog } from './fault-log.ts';
import { openReactor } from './io/open-reactor.ts';
import type { Reactor } from './io/reactor.ts';
import { NonceTable } from './shared/nonce-table.ts';
import { RecordWriter } from './shared/record-ring.ts';
import { CLIENT, LISTENER, OPENED, Rows } from './shared/rows.ts';
import {
  BACKEND_FIELDS,
  BucketPages,
  CLUSTER_FIELDS,
  RouteCounters,
  SharedSlots,
} from './shared/shared-memory.ts';
import { SourceCounts } from './shared/source-counts.ts';
import { ThreadControl } from './shared/thread-control.ts';
import { Verdicts } from './shared/verdicts.ts';
import { acceptAll, closeListener, leaveListener } from './stages/accept.ts';
import type { Shared } from './stages/data-path.ts';
import { Dispatcher } from './stages/dispatch.ts';
import { cutAll, cutHandedOff } from './stages/end.ts';
import { revoke, revokeOne } from './stages/revoke.ts';
import { compileListener } from './table/listener-table.ts';

/** A worker reports failed dials at most this often: a report only brings the next lookup of the name forward. */
const DIAL_FAILED_EVERY_MS = 500;

class Worker {
  readonly #control: MessagePort;
  readonly #io: Reactor;
  readonly #memory: Shared;
  readonly #path: Dispatcher;
  readonly #faults: FaultLog;
  /** Listener index → handles: one, or more if an old process had more workers. */
  readonly #handles = new Map<number, number[]>();
  /** Indexes of listeners that another process has open too. */
  readonly #shared = new Set<number>();
  /** Numbers of requests to answer when no listener is closing. */
  readonly #waiting: number[] = [];
  #dialFailedAt = 0;

  constructor(start: WorkerStart, io: Reactor, control: MessagePort) {
    this.#control = control;
    this.#io = io;
    this.#faults = new FaultLog(`worker-${start.number}`, report => this.#post({ kind: 'fault', report }));
    this.#memory = {
      rows: new Rows(start.rows),
      counters: new RouteCounters(),
      clusters: new SharedSlots(CLUSTER_FIELDS),
      backends: new SharedSlots(BACKEND_FIELDS),
      buckets: new BucketPages(),
      totals: new Int32Array(start.totals),
      sources: new SourceCounts(start.sources, start.seed),
      nonces: new NonceTable(start.nonces, start.seed),
      records: new RecordWriter(start.records, () => this.#post({ kind: 'records' })),
      verdicts: new Verdicts(start.verdicts),
    };
    this.#path = new Dispatcher(start.number, this.#io, this.#memory, start.settings, {
      message: message => this.#message(message as ToWorker),
      failed: slot => this.#dialFailed(slot),
      uplinkRefused: (status, reported) => this.#post({ kind: 'uplink-refused', status, reported }),
      fault: (error, client) => this.#faults.write(error, this.#describeClient(client)),
    });
    this.#path.listenersClosed = () => this.#answerWaiting();
  }

  run(): void {
    this.#io.run(this.#path, this.#control);
  }

  #post(message: FromWorker): void {
    this.#control.postMessage(message);
  }

  #message(message: ToWorker): void {
    switch (message.kind) {
      case 'open':
        this.#io.listen(message.address, result => this.#opened(message, result));
        break;
      case 'pages':
        this.#usePages(message.pages);
        this.#post({ kind: 'applied', request: message.request });
        break;
      case 'close':
        for (const index of message.indexes) this.#close(index);
        break;
      case 'table':
        this.#apply(message);
        break;
      case 'listeners-closed':
        this.#waiting.push(message.request);
        if (this.#path.closing.size === 0) this.#answerWaiting();
        break;
      case 'addresses':
        for (const [slot, addresses] of message.backends) this.#path.table.setAddresses(slot, addresses);
        break;
      case 'settings':
        this.#path.settings = message.settings;
        break;
      case 'shared':
        for (const index of message.indexes) {
          if (message.isShared) this.#shared.add(index);
          else this.#shared.delete(index);
        }
        break;
      case 'drain':
        // Internal listeners stay open: connections that return from a protocol thread were accepted before the drain.
        for (const index of this.#handles.keys())
          if (this.#path.listeners[index]?.isInternal !== true) this.#close(index);
        break;
      case 'http':
        this.#path.table.putHttpThreads(message.sockets);
        break;
      case 'tunnels':
        this.#path.table.putTunnels(message.hosts, message.sockets);
        break;
      case 'thread-died':
        cutHandedOff(this.#path, message.group, message.index);
        break;
      case 'cut':
        cutAll(this.#path, message.reason);
        break;
      case 'describe':
        this.#post({ kind: 'described', request: message.request, texts: this.#describe(message) });
        break;
      case 'revoke':
        this.#post({
          kind: 'revoked',
          request: message.request,
          done: revokeOne(this.#path, message.handle, message.generation),
        });
        break;
      case 'stop':
        this.#io.stop();
        break;
      default:
    }
  }

  #opened({ index, request }: Extract<ToWorker, { kind: 'open' }>, result: number): void {
    if (result >= 0) {
      this.#handles.set(index, [...(this.#handles.get(index) ?? []), result]);
      this.#path.rows.clear(result);
      this.#path.rows.state[result] = OPENED;
      this.#path.rows.listener[result] = index;
    }
    const isOpen = result >= 0;
    this.#post({
      kind: 'opened',
      request,
      result: isOpen ? this.#io.listeningPort(result) : result,
      descriptor: isOpen ? this.#io.descriptor(result) : -1,
    });
  }

  #answerWaiting(): void {
    for (const request of this.#waiting.splice(0)) this.#post({ kind: 'applied', request });
  }

  #close(index: number): void {
    const handles = this.#handles.get(index) ?? [];
    this.#handles.delete(index);
    const leave = this.#shared.delete(index) ? leaveListener : closeListener;
    for (const handle of handles) leave(this.#path, handle);
  }

  #usePages({ counters, clusters, buckets, backends }: Pages): void {
    for (const page of counters) this.#memory.counters.addPage(page);
    for (const page of clusters) this.#memory.clusters.addPage(page);
    for (const page of buckets) this.#memory.buckets.addPage(page);
    for (const page of backends) this.#memory.backends.addPage(page);
  }

  #apply(message: TableMessage): void {
    this.#path.settings = message.settings;
    this.#io.keepalive(message.settings.keepaliveMs ?? 0);
    this.#io.stalled(message.settings.stalledMs ?? 0);
    this.#path.table.apply(message.removed, message.put);
    revoke(this.#path, message.removed.length > 0, new Set(message.put.map(cluster => cluster.slot)));
    for (const [index, entry] of message.listeners) {
      this.#path.listeners[index] = compileListener(entry);
      for (const handle of this.#handles.get(index) ?? []) {
        if (this.#path.rows.state[handle] === LISTENER) continue;
        this.#path.rows.state[handle] = LISTENER;
        acceptAll(this.#path, handle);
      }
    }
    this.#post({ kind: 'applied', request: message.request });
  }

  /** Answers even after a fault, so that the control thread does not wait forever. */
  #describe(request: Extract<ToWorker, { kind: 'describe' }>): readonly (RowTexts | null)[] {
    try {
      return describeRows(this.#path.rows, request);
    } catch (error) {
      this.#faults.write(error);
      return Array.from(request.handles, () => null);
    }
  }

  #describeClient(client: number): { readonly client?: string } {
    const { rows } = this.#memory;
    if (client < 0 || rows.portOf(client, CLIENT) === 0) return {};
    const at = rows.addressAt(client, CLIENT);
    return { client: formatIpPort(rows.addresses, at, rows.portOf(client, CLIENT)) };
  }

  #dialFailed(slot: number): void {
    const now = this.#io.now();
    if (slot === 0 || now - this.#dialFailedAt < DIAL_FAILED_EVERY_MS) return;
    this.#dialFailedAt = now;
    this.#post({ kind: 'dial-failed', slot });
  }
}

if (parentPort !== null) {
  const start = workerData as WorkerStart;
  const io = await openReactor(start.engine, { ...start, control: new ThreadControl(start.control) });
  const worker = new Worker(start, io, parentPort);
  parentPort.postMessage({ kind: 'started' } satisfies FromWorker);
  // It will not end in a way that does this.
  flushCompileCache();
  worker.run();
}
