// The life of a process that serves, which `run` and `agent` share: signals, a fault on the control thread, and one way
// out that always leads out. Every wait at the end is bounded; what is still stuck then is left behind by
// exit-for-sure.ts.

import type { Logger } from 'pino';
import { exitForSure } from './exit-for-sure.ts';
import type { Log } from './log.ts';

/** sysexits.h EX_SOFTWARE: a supervisor starts the process again. */
const FAULT = 70;
/** What connections may still do after a fault of the control thread, which nobody looks after any more. */
const FAULT_DRAIN_MS = 2000;
/** After a signal while it starts: by then it serves and can be ended in order, or it is ended as it is. */
const START_MS = 2000;
/** After a drain: for threads to end, files to close, leases to be given back. */
const DISPOSE_MS = 10_000;
/** After the second signal, or a fault: time to count and log what is cut, and no more. */
const AT_ONCE_MS = 500;

export interface Service extends AsyncDisposable {
  /** Accepts nothing more; resolves when what was open has ended. */
  drain(): Promise<void>;
  /** Resolves when a drain is over, whoever began it. */
  readonly drained: Promise<void>;
  /** On SIGHUP. */
  reload?(): void;
}

export class Lifetime {
  #service: Service | undefined;
  #log: Log | undefined;
  readonly #ended = Promise.withResolvers<void>();
  #signals = 0;
  #hasFault = false;

  private constructor() {}

  /**
   * From the first moment on: the kernel gives the first process of a container only those signals that it handles.
   */
  static async begin(): Promise<Lifetime> {
    const lifetime = new Lifetime();
    process.on('SIGTERM', () => lifetime.#stop());
    process.on('SIGINT', () => lifetime.#stop());
    process.on('SIGHUP', () => lifetime.#service?.reload?.());
    process.on('uncaughtException', error => void lifetime.#fault(error));
    await exitForSure();
    return lifetime;
  }

  /** What is logged to from here on. */
  use(log: Log): void {
    this.#log = log;
  }

  /** Serves until a drain is over, or a second signal comes. `ready` is called once it serves, unless it is to end already. */
  async serve<Served extends Service>(
    start: () => Promise<Served>,
    ready: (served: Served) => void,
  ): Promise<void> {
    const service = await start();
    this.#service = service;
    service.drained.then(this.#ended.resolve, this.#ended.reject);
    if (this.#signals === 0) {
      ready(service);
      await this.#ended.promise;
    }
    await within(this.#signals > 1 ? AT_ONCE_MS : DISPOSE_MS, service[Symbol.asyncDispose]());
  }

  /** Ends the process, whatever is left running. */
  async exit(code: number): Promise<never> {
    await this.#log?.close();
    process.exit(this.#hasFault ? FAULT : code);
  }

  #stop(): void {
    this.#signals++;
    if (this.#signals > 1) {
      this.#ended.resolve();
      setTimeout(() => process.exit(0), 2 * AT_ONCE_MS);
    } else if (this.#service === undefined) {
      setTimeout(() => process.exit(0), START_MS);
    } else {
      // Also after a drain began over HTTP: a preStop hook may ask for it, and the signal follows at once.
      this.#service.drain().catch(this.#ended.reject);
    }
  }

  /** Nothing can be relied on after this: what is open may finish for a moment, and the process ends. */
  async #fault(error: Error): Promise<void> {
    if (this.#hasFault) process.exit(FAULT);
    this.#hasFault = true;
    if (this.#log === undefined) process.stderr.write(`${error.stack ?? error}\n`);
    else fatal(this.#log.logger, error);
    if (this.#service !== undefined) {
      await within(FAULT_DRAIN_MS, this.#service.drain());
      await within(AT_ONCE_MS, this.#service[Symbol.asyncDispose]());
    }
    await this.exit(FAULT);
  }
}

function fatal(log: Logger, error: Error): void {
  log.fatal({ err: error }, 'fault on the control thread; ending, to be started again');
}

/** Whatever becomes of it: nobody is left to handle a failure. */
async function within(ms: number, work: PromiseLike<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([Promise.resolve(work).catch(() => {}), late]);
  clearTimeout(timer);
}
