// The lifetime of a serving process, shared by `run` and `agent`: signals, a fault on the control thread, and an exit
// that cannot hang. Every wait at the end has a deadline; exit-for-sure.ts abandons whatever is still stuck then.

import type { Logger } from 'pino';
import { exitForSure } from './exit-for-sure.ts';
import type { Log } from './log.ts';
import { settle } from './settle.ts';
import { Supervisor } from './supervisor.ts';
import { printError } from './terminal.ts';

/** sysexits.h EX_SOFTWARE: a supervisor restarts the process. */
const FAULT = 70;
/** Drain time after a fault of the control thread: connections go on without supervision, so it is short. */
const FAULT_DRAIN_MS = 2000;
/** After it is ready: by then threads have run what they run only once. */
const SETTLED_MS = 1000;
/** After a signal during start-up: either it serves by then and ends in order, or it exits as it is. */
const START_MS = 2000;
/** After a drain: time for threads to end, files to close, leases to be released. */
const DISPOSE_MS = 10_000;
/** After a fault and its drain: time to count and log the connections that are cut, on a busy machine too. */
const FAULT_DISPOSE_MS = 3000;
/** After the second signal: the same, and no more. */
const AT_ONCE_MS = 500;

export interface Service extends AsyncDisposable {
  /** Stops accepting; resolves when all open connections have ended. */
  drain(): Promise<void>;
  /** Resolves when a drain is over, whether a signal or the admin API started it. */
  readonly drained: Promise<void>;
  /** On SIGHUP. Resolves when the new configuration is served or refused. */
  reload?(): Promise<void>;
  /** Resolves when another process has replaced this one. */
  readonly takenOver?: Promise<void>;
}

export class Lifetime {
  #service: Service | undefined;
  #log: Log | undefined;
  readonly #ended = Promise.withResolvers<void>();
  #signals = 0;
  #hasFault = false;
  #supervisor = Supervisor.none;

  private constructor() {}

  /** Call this first: the kernel delivers to process 1 of a container only the signals that it handles. */
  static async begin(): Promise<Lifetime> {
    const lifetime = new Lifetime();
    process.on('SIGTERM', () => lifetime.#stop());
    process.on('SIGINT', () => lifetime.#stop());
    process.on('SIGHUP', () => lifetime.#reload());
    process.on('uncaughtException', error => void lifetime.#fault(error));
    lifetime.#supervisor = await Supervisor.find(process.env);
    await exitForSure();
    return lifetime;
  }

  /** This process takes over from another. The supervisor must know before the other one ends. */
  becomeMain(): void {
    this.#supervisor.becomeMain(process.pid);
  }

  use(log: Log): void {
    this.#log = log;
  }

  /** Serves until a drain is over or a second signal arrives. Calls `ready` once serving, unless a signal came first. */
  async serve<Served extends Service>(
    start: () => Promise<Served>,
    ready: (served: Served) => void,
  ): Promise<void> {
    const service = await start();
    this.#service = service;
    service.drained.then(this.#ended.resolve, this.#ended.reject);
    void service.takenOver?.then(() => this.#supervisor.leave());
    if (this.#signals === 0) {
      ready(service);
      this.#supervisor.ready(process.pid, process.env);
      setTimeout(settle, SETTLED_MS).unref();
      await this.#ended.promise;
    }
    // #fault() ends the process, once the last lines are written.
    if (this.#hasFault) await new Promise<never>(() => {});
    await within(this.#signals > 1 ? AT_ONCE_MS : DISPOSE_MS, service[Symbol.asyncDispose]());
    this.#log?.logger.info('stopped');
  }

  /** Ends the process, even with work left running. */
  async exit(code: number): Promise<never> {
    await this.#log?.close();
    process.exit(this.#hasFault ? FAULT : code);
  }

  #reload(): void {
    const done = this.#service?.reload?.();
    if (done !== undefined) this.#supervisor.reloading(done);
  }

  #stop(): void {
    this.#signals++;
    this.#supervisor.stopping();
    if (this.#signals > 1) {
      this.#ended.resolve();
      setTimeout(() => process.exit(0), 2 * AT_ONCE_MS);
    } else if (this.#service === undefined) {
      setTimeout(() => process.exit(0), START_MS);
    } else {
      // Also when a drain was started over HTTP: a preStop hook may request it, with the signal right behind.
      this.#service.drain().catch(this.#ended.reject);
    }
  }

  /** The process state is unreliable after this: gives open connections a moment to finish, then exits. */
  async #fault(error: Error): Promise<void> {
    // Further ones do not cut short what is under way: every wait below is bounded.
    if (this.#hasFault) return printError(...String(error.stack ?? error).split('\n'));
    this.#hasFault = true;
    setTimeout(() => process.exit(FAULT), FAULT_DRAIN_MS + FAULT_DISPOSE_MS + AT_ONCE_MS);
    if (this.#log === undefined) printError(...String(error.stack ?? error).split('\n'));
    else fatal(this.#log.logger, error);
    if (this.#service !== undefined) {
      await within(FAULT_DRAIN_MS, this.#service.drain());
      await within(FAULT_DISPOSE_MS, this.#service[Symbol.asyncDispose]());
    }
    await this.exit(FAULT);
  }
}

function fatal(log: Logger, error: Error): void {
  log.fatal({ err: error }, 'fault on the control thread; exiting for a restart');
}

/** Waits at most that long and ignores failures: nothing is left to handle them. */
async function within(ms: number, work: PromiseLike<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([Promise.resolve(work).catch(() => {}), late]);
  clearTimeout(timer);
}
