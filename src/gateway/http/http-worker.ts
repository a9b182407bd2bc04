// An HTTP thread: one HTTP part, and the control thread's messages. Entry point of the thread.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { FromWorker, Pages, PartStart, TableMessage, ToWorker } from '../control/worker-messages.ts';
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
import { Verdicts } from '../shared/verdicts.ts';
import { compileListener } from '../table/listener-table.ts';
import { Table } from '../table/table.ts';
import { HttpPart } from './http-part.ts';
import { RequestLog } from './request-log.ts';

class HttpWorker {
  readonly #control: MessagePort;
  readonly #part: HttpPart;
  readonly #log: RequestLog;

  constructor(start: PartStart, control: MessagePort) {
    this.#control = control;
    this.#log = new RequestLog((records, dropped) =>
      this.#tell({ kind: 'requests', thread: start.number, records, dropped }),
    );
    this.#part = new HttpPart({
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
      settings: start.settings,
      log: this.#log,
      onDialFailed: slot => this.#tell({ kind: 'dial-failed', slot }),
    });
  }

  async run(socket: string): Promise<void> {
    await this.#part.listen(socket);
    this.#control.on('message', (message: ToWorker) => this.#message(message));
    this.#tell({ kind: 'started' });
  }

  async #listen({ request, socket }: Extract<ToWorker, { kind: 'listen' }>): Promise<void> {
    const error = await this.#part.listen(socket).then(
      () => undefined,
      (cause: Error) => cause.message,
    );
    this.#tell({ kind: 'listening', request, ...(error !== undefined && { error }) });
  }

  #tell(message: FromWorker): void {
    this.#control.postMessage(message);
  }

  #message(message: ToWorker): void {
    switch (message.kind) {
      case 'pages':
        this.#usePages(message.pages);
        this.#tell({ kind: 'applied', request: message.request });
        break;
      case 'table':
        this.#apply(message);
        break;
      case 'addresses':
        for (const [slot, addresses] of message.backends) {
          this.#part.table.setAddresses(slot, addresses);
          this.#part.kept.closeIdle(slot);
        }
        break;
      case 'requests-taken':
        this.#log.taken();
        break;
      case 'listen':
        void this.#listen(message);
        break;
      case 'fronts':
        this.#part.h2.fronts = message.fronts;
        break;
      case 'drain':
        this.#part.drain();
        break;
      case 'stop':
        this.#part.stop();
        this.#control.close();
        break;
      default:
    }
  }

  #usePages({ counters, clusters, buckets, backends, requests }: Pages): void {
    const { shared } = this.#part;
    for (const page of counters) shared.counters.addPage(page);
    for (const page of clusters) shared.clusters.addPage(page);
    for (const page of buckets) shared.buckets.addPage(page);
    for (const page of backends) shared.backends.addPage(page);
    for (const page of requests) shared.requests.addPage(page);
  }

  #apply(message: TableMessage): void {
    const { table, listeners } = this.#part;
    this.#part.configure(message.settings);
    table.apply(message.removed, message.put);
    for (const [index, entry] of message.listeners) listeners[index] = compileListener(entry);
    this.#part.revoke();
    this.#tell({ kind: 'applied', request: message.request });
  }
}

if (parentPort !== null) {
  const start = workerData as PartStart;
  await new HttpWorker(start, parentPort).run(start.socket);
}
