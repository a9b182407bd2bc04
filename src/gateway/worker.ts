// Entry point of a worker or a stream thread: one reactor, one data path, and the control thread's messages. A stream
// thread has no listeners, but connections that a worker gives it.

import { closeSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { formatIpPort } from '../wire/ip-address.ts';
import { describeRows } from './control/open-connections.ts';
import type {
  FromWorker,
  Pages,
  RowTexts,
  StreamThread,
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
  RequestCounters,
  RouteCounters,
  SharedSlots,
} from './shared/shared-memory.ts';
import { SourceCounts } from './shared/source-counts.ts';
import { ThreadControl } from './shared/thread-control.ts';
import { acceptAll, closeListener, leaveListener } from './stages/accept.ts';
import type { Shared } from './stages/data-path.ts';
import { Dispatcher } from './stages/dispatch.ts';
import { cutAll } from './stages/end.ts';
import type { Gift, Receiver } from './stages/gift.ts';
import { giveWaiting } from './stages/give.ts';
import { closeKeptOfGone, leaveAddresses } from './stages/keep-backend.ts';
import { recordEnd } from './stages/record-end.ts';
import { drainRequests } from './stages/request.ts';
import { revoke, revokeOne } from './stages/revoke.ts';
import type { Streams } from './streams/streams.ts';
import type { UplinkHooks } from './streams/uplinks.ts';
import { compileListener } from './table/listener-table.ts';

/** A worker reports failed dials at most this often: a report only brings the next lookup of the name forward. */
const DIAL_FAILED_EVERY_MS = 500;

/** Each kind of trouble is reported at most this often. */
const TROUBLE_MS = 1000;

type NewStreams = (path: Dispatcher, arrivals: Rows, hooks: UplinkHooks) => Streams;

class Worker {
  readonly #control: MessagePort;
  readonly #io: Reactor;
  readonly #memory: Shared;
  readonly #path: Dispatcher;
  readonly #faults: FaultLog;
  /** Only where the reactor is one of Node's streams. */
  readonly #streams: Streams | undefined;
  /** Listener index → handles: one, or more if an old process had more workers. */
  readonly #handles = new Map<number, number[]>();
  /** Indexes of listeners that another process has open too. */
  readonly #shared = new Set<number>();
  /** Numbers of requests to answer when no listener is closing. */
  readonly #waiting: number[] = [];
  #dialFailedAt = 0;
  /** Where connections come from. */
  #gifts: MessagePort | undefined;
  readonly #troubledAt = new Map<string, number>();

  constructor(start: WorkerStart, io: Reactor, control: MessagePort, newStreams: NewStreams | undefined) {
    this.#control = control;
    this.#io = io;
    this.#faults = new FaultLog(start.name, report => this.#post({ kind: 'fault', report }));
    this.#memory = {
      rows: new Rows(start.rows),
      counters: new RouteCounters(),
      requests: new RequestCounters(),
      clusters: new SharedSlots(CLUSTER_FIELDS),
      backends: new SharedSlots(BACKEND_FIELDS),
      buckets: new BucketPages(),
      totals: new Int32Array(start.totals),
      sources: new SourceCounts(start.sources, start.seed),
      nonces: new NonceTable(start.nonces, start.seed),
      records: new RecordWriter(start.records, () => this.#post({ kind: 'records' })),
    };
    this.#path = new Dispatcher(this.#io, this.#memory, start.settings, {
      message: message => this.#message(message as ToWorker),
      failed: slot => this.#dialFailed(slot),
      uplinkRefused: (status, reported) => this.#post({ kind: 'uplink-refused', status, reported }),
      fault: (error, client) => this.#faults.write(error, this.#describeClient(client)),
    });
    this.#path.listenersClosed = () => this.#answerWaiting();
    this.#path.streamsWanted = () => this.#post({ kind: 'streams-wanted' });
    if (newStreams === undefined) return;
    this.#streams = newStreams(this.#path, new Rows(start.arrivals), {
      trouble: (what, why) => this.#trouble(what, why),
      dialFailed: () => this.#post({ kind: 'gateway-failed' }),
    });
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
        for (const [slot, addresses] of message.backends) {
          this.#path.table.setAddresses(slot, addresses);
          leaveAddresses(this.#path, slot);
        }
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
        for (const index of this.#handles.keys()) this.#close(index);
        drainRequests(this.#path);
        this.#streams?.drain();
        break;
      case 'streams':
        this.#path.mayGive = true;
        if (message.thread !== undefined) this.#path.receiver = this.#receiver(message.thread);
        if (this.#path.receiver !== undefined) giveWaiting(this.#path);
        break;
      case 'streams-gone':
        this.#path.receiver = undefined;
        break;
      case 'gifts':
        this.#takeFrom(message.port);
        break;
      case 'tunnels':
        this.#path.table.putTunnels(message.hosts);
        break;
      case 'tls':
        this.#streams?.configure(message.config);
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
        this.#gifts?.close();
        this.#streams?.stop();
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

  #usePages({ counters, clusters, buckets, backends, requests }: Pages): void {
    for (const page of requests) this.#memory.requests.addPage(page);
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
    closeKeptOfGone(this.#path);
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

  /** A worker gives its connections to this thread. */
  #takeFrom(port: MessagePort): void {
    this.#gifts = port;
    port.on('message', (gift: Gift) => this.#streams?.take(gift));
    port.once('close', () => this.#streams?.endOrphans());
  }

  /** Another thread takes connections from this one. */
  #receiver({ port, arrivals, control }: StreamThread): Receiver {
    const rows = new Rows(arrivals);
    const thread = new ThreadControl(control);
    port.unref();
    return {
      arrivals: rows,
      owned: thread.held,
      take: gift => {
        port.postMessage(gift);
        // The thread has ended: the side that clears the mark cleans up.
        const descriptor = gift.connection as number;
        if (!thread.isOver || Atomics.exchange(thread.held, descriptor, 0) === 0) return;
        recordEnd(rows, this.#memory, gift.at, 'shutdown', this.#io.now(), this.#path.settings.log);
        closeSync(descriptor);
      },
    };
  }

  #trouble(what: string, why: string): void {
    const now = this.#io.now();
    if (now - (this.#troubledAt.get(what) ?? Number.NEGATIVE_INFINITY) < TROUBLE_MS) return;
    this.#troubledAt.set(what, now);
    this.#post({ kind: 'tls-trouble', what, why });
  }

  #dialFailed(slot: number): void {
    const now = this.#io.now();
    if (slot === 0 || now - this.#dialFailedAt < DIAL_FAILED_EVERY_MS) return;
    this.#dialFailedAt = now;
    this.#post({ kind: 'dial-failed', slot });
  }
}

/** Node's streams take time and memory to load. */
async function loadStreams(io: Reactor, control: ThreadControl): Promise<NewStreams | undefined> {
  const [{ NetReactor }, { Streams }] = await Promise.all([
    import('./io/net-reactor.ts'),
    import('./streams/streams.ts'),
  ]);
  return io instanceof NetReactor
    ? (path, arrivals, hooks) => new Streams(path, io, arrivals, control.held, hooks)
    : undefined;
}

if (parentPort !== null) {
  const start = workerData as WorkerStart;
  const control = new ThreadControl(start.control);
  const io = await openReactor(start.engine, { ...start, control });
  const newStreams = start.engine === 'net' ? await loadStreams(io, control) : undefined;
  const worker = new Worker(start, io, parentPort, newStreams);
  parentPort.postMessage({ kind: 'started' } satisfies FromWorker);
  // It will not end in a way that does this.
  flushCompileCache();
  worker.run();
}
