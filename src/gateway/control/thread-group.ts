// All HTTP threads or all TLS threads, as the control thread sees them. They start with the first route that needs
// them, each listens on a unix socket in a private folder, and they are restarted when they die.

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { SharedPages } from '../shared/shared-pages.ts';
import { Verdicts } from '../shared/verdicts.ts';
import { ListenError } from './listen-error.ts';
import type { FromWorker, ProtocolThreadStart } from './worker-messages.ts';
import { type CommonCounts, WorkerThread } from './worker-thread.ts';

/** The options that all threads of the group share. */
export type ThreadGroupOptions = Omit<
  ProtocolThreadStart,
  'number' | 'rows' | 'records' | 'control' | 'socket' | 'verdicts'
> & {
  readonly capacity: number;
};

export interface ThreadGroupEvents {
  message(message: FromWorker): void;
  died(thread: WorkerThread, cause: Error): void;
}

export class ThreadGroup implements AsyncDisposable {
  readonly kind: 'http' | 'tls';
  readonly #count: number;
  readonly #counts: Omit<CommonCounts, 'verdicts'>;
  readonly #verdicts: readonly SharedArrayBuffer[];
  readonly #pages: SharedPages;
  readonly #events: ThreadGroupEvents;
  #threads: readonly WorkerThread[] = [];
  #sockets: string[] = [];

  /** `verdicts` are those of the workers, indexed by worker. */
  constructor(
    kind: 'http' | 'tls',
    count: number,
    counts: Omit<CommonCounts, 'verdicts'>,
    verdicts: readonly SharedArrayBuffer[],
    pages: SharedPages,
    events: ThreadGroupEvents,
  ) {
    this.kind = kind;
    this.#count = count;
    this.#counts = counts;
    this.#verdicts = verdicts;
    this.#pages = pages;
    this.#events = events;
  }

  /** Empty before start(). */
  get threads(): readonly WorkerThread[] {
    return this.#threads;
  }

  /** The paths they listen on, by thread. */
  get sockets(): readonly string[] {
    return this.#sockets;
  }

  /** `folder` is for the sockets. Resolves to an error if no thread started; if only some failed, those are retried. */
  async start(folder: string, options: ThreadGroupOptions): Promise<Error | undefined> {
    // Their rows hold requests, for which no thread reports verdicts.
    const counts = { ...this.#counts, verdicts: new Verdicts(new SharedArrayBuffer(0)) };
    const threads = Array.from({ length: this.#count }, (_, number) => {
      const thread: WorkerThread = new WorkerThread(number, this.kind, counts, {
        message: message => this.#events.message(message),
        died: cause => this.#events.died(thread, cause),
      });
      return thread;
    });
    this.#sockets = threads.map(thread => this.#socketIn(folder, thread));
    const failures = await Promise.all(threads.map(thread => this.#startOne(thread, options)));
    if (failures.every(failure => failure !== undefined)) return failures[0];
    for (const { pages } of threads) this.#pages.add(pages);
    this.#threads = threads;
    for (const [number, failure] of failures.entries())
      if (failure !== undefined) this.#events.died(threads[number], failure);
    return undefined;
  }

  /** Moves the sockets to another folder. Threads that are not running will start there. */
  async move(folder: string): Promise<void> {
    this.#sockets = this.#threads.map(thread => this.#socketIn(folder, thread));
    const errors = await Promise.all(
      this.#threads.map(thread => thread.listen(this.#sockets[thread.number])),
    );
    const error = errors.find(one => one !== undefined);
    if (error !== undefined) throw new ListenError(folder, error);
  }

  /** Resolves to the error if it fails. */
  restart(thread: WorkerThread, options: ThreadGroupOptions): Promise<Error | undefined> {
    return this.#startOne(thread, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#threads.map(thread => thread.end()));
  }

  #socketIn(folder: string, { number }: WorkerThread): string {
    return join(folder, `${this.kind}-${number}`);
  }

  async #startOne(thread: WorkerThread, options: ThreadGroupOptions): Promise<Error | undefined> {
    const socket = this.#sockets[thread.number];
    // The socket of the thread that died is in the way.
    await rm(socket, { force: true });
    return thread.start({ ...options, socket, verdicts: this.#verdicts });
  }
}
