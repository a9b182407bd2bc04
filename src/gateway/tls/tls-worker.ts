// Entry point of a TLS thread: one TlsThread, and the control thread's messages to it.

import { flushCompileCache } from 'node:module';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { FromWorker, ProtocolThreadStart, ToWorker } from '../control/worker-messages.ts';
import { FaultLog } from '../fault-log.ts';
import { Verdicts } from '../shared/verdicts.ts';
import { TlsThread } from './tls-thread.ts';

/** Each kind of trouble is reported at most this often. */
const TROUBLE_MS = 1000;

class TlsWorker {
  readonly #control: MessagePort;
  readonly #thread: TlsThread;
  readonly #reportedAt = new Map<string, number>();

  constructor(start: ProtocolThreadStart, control: MessagePort) {
    this.#control = control;
    this.#thread = new TlsThread({
      verdicts: start.verdicts.map(memory => new Verdicts(memory)),
      settings: start.settings,
      onTrouble: (what, why) => this.#trouble(what, why),
      onDialFailed: () => this.#send({ kind: 'gateway-failed' }),
      faults: new FaultLog(`tls-${start.number}`, report => this.#send({ kind: 'fault', report })),
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

  #trouble(what: string, why: string): void {
    const now = performance.now();
    if (now - (this.#reportedAt.get(what) ?? Number.NEGATIVE_INFINITY) < TROUBLE_MS) return;
    this.#reportedAt.set(what, now);
    this.#send({ kind: 'tls-trouble', what, why });
  }

  #onMessage(message: ToWorker): void {
    switch (message.kind) {
      case 'tls':
        this.#thread.configure(message.config);
        break;
      case 'listen':
        void this.#listen(message);
        break;
      case 'internal-listeners':
        this.#thread.internalListeners = message.internalListeners;
        break;
      case 'pages':
        // This thread counts nothing by route.
        this.#send({ kind: 'applied', request: message.request });
        break;
      case 'table':
        this.#thread.settings = message.settings;
        this.#send({ kind: 'applied', request: message.request });
        break;
      case 'stop':
        this.#thread.stop();
        this.#control.close();
        break;
      default:
    }
  }
}

if (parentPort !== null) {
  const start = workerData as ProtocolThreadStart;
  await new TlsWorker(start, parentPort).run(start.socket);
  // It may not end in a way that does this.
  flushCompileCache();
}
