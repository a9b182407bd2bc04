// Entry point of an HTTP thread: one HttpThread, and the control thread's messages to it.

import { flushCompileCache } from 'node:module';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type {
  FromWorker,
  Pages,
  ProtocolThreadStart,
  TableMessage,
  ToWorker,
} from '../control/worker-messages.ts';
import { FaultLog } from '../fault-log.ts';
import { RecordWriter } from '../shared/record-ring.ts';
import { Rows } from '../shared/rows.ts';
import {
  BACKEND_FIELDS,
  BucketPages,
  CLUSTER_FIELDS,
  RequestCounters,
  RouteCounters,
  SharedSlots,
} from '../shared/shared-memory.ts';
import { SourceCounts } from '../shared/source-counts.ts';
import { ThreadControl } from '../shared/thread-control.ts';
import { Verdicts } from '../shared/verdicts.ts';
import { compileListener } from '../table/listener-table.ts';
import { Table } from '../table/table.ts';
import { HttpThread } from './http-thread.ts';
import { RequestLog } from './request-log.ts';

class HttpWorker {
  readonly #control: MessagePort;
  readonly #thread: HttpThread;
  readonly #log: RequestLog;

  constructor(start: ProtocolThreadStart, control: MessagePort) {
    this.#control = control;
    const held = new RecordWriter(start.records, () => {});
    this.#log = new RequestLog(
      (records, dropped) => this.#send({ kind: 'requests', thread: start.number, records, dropped }),
      count => held.countHeld(count),
    );
    this.#thread = new HttpThread({
      rows: new Rows(start.rows),
      shared: {
        counters: new RouteCounters(),
        clusters: new SharedSlots(CLUSTER_FIELDS),
        backends: new SharedSlots(BACKEND_FIELDS),
        buckets: new BucketPages(),
        requests: new RequestCounters(),
        totals: new Int32Array(start.totals),
        sources: new SourceCounts(start.sources, start.seed),
      },
      table: new Table(),
      verdicts: start.verdicts.map(memory => new Verdicts(memory)),
      control: new ThreadControl(start.control),
      settings: start.settings,
      log: this.#log,
      onDialFailed: slot => this.#send({ kind: 'dial-failed', slot }),
      faults: new FaultLog(`http-${start.number}`, report => this.#send({ kind: 'fault', report })),
    });
  }

  async run(socket: string): Promise<void> {
    await this.#thread.listen(socket);
    this.#control.on('message', (message: ToWorker) => this.#onMessage(message));
    this.#send({ kind: 'started' });
  }

  async #listen({ request, socket }: Extract<ToWorker, { kind: 'listen' }>): Promise<void> {
    const error = await this.#thread.listen(socket).then(
      () => undefined,
      (cause: Error) => cause.message,
    );
    this.#send({ kind: 'listening', request, ...(error !== undefined && { error }) });
  }

  #send(message: FromWorker): void {
    this.#control.postMessage(message);
  }

  #onMessage(message: ToWorker): void {
    switch (message.kind) {
      case 'pages':
        this.#usePages(message.pages);
        this.#send({ kind: 'applied', request: message.request });
        break;
      case 'table':
        this.#apply(message);
        break;
      case 'addresses':
        for (const [slot, addresses] of message.backends) {
          this.#thread.table.setAddresses(slot, addresses);
          this.#thread.kept.closeIdle(slot);
        }
        break;
      case 'requests-taken':
        this.#log.taken();
        break;
      case 'listen':
        void this.#listen(message);
        break;
      case 'internal-listeners':
        this.#thread.h2.internalListeners = message.internalListeners;
        break;
      case 'drain':
        this.#thread.drain();
        break;
      case 'stop':
        this.#thread.stop();
        this.#control.close();
        break;
      default:
    }
  }

  #usePages({ counters, clusters, buckets, backends, requests }: Pages): void {
    const { shared } = this.#thread;
    for (const page of counters) shared.counters.addPage(page);
    for (const page of clusters) shared.clusters.addPage(page);
    for (const page of buckets) shared.buckets.addPage(page);
    for (const page of backends) shared.backends.addPage(page);
    for (const page of requests) shared.requests.addPage(page);
  }

  #apply(message: TableMessage): void {
    const { table, listeners } = this.#thread;
    this.#thread.configure(message.settings);
    table.apply(message.removed, message.put);
    for (const [index, entry] of message.listeners) listeners[index] = compileListener(entry);
    this.#thread.revoke();
    this.#send({ kind: 'applied', request: message.request });
  }
}

if (parentPort !== null) {
  const start = workerData as ProtocolThreadStart;
  await new HttpWorker(start, parentPort).run(start.socket);
  // It may not end in a way that does this.
  flushCompileCache();
}
