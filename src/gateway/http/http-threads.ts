// The HTTP threads as the control thread sees them: they start with the first route that needs them, each listens on a
// unix socket in a folder that nobody else can enter, and they are started again when they die.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Verdicts } from '../verdicts.ts';
import type { FromWorker, HttpStart } from '../worker-messages.ts';
import { type CommonCounts, WorkerThread } from '../worker-thread.ts';

/** What every thread gets; the rest is each one's own. */
export type HttpThreadOptions = Omit<HttpStart, 'number' | 'rows' | 'socket' | 'verdicts'> & {
  readonly capacity: number;
};

export interface HttpThreadEvents {
  message(message: FromWorker): void;
  died(thread: WorkerThread, cause: Error): void;
}

export class HttpThreads implements AsyncDisposable {
  readonly #count: number;
  readonly #counts: Omit<CommonCounts, 'verdicts'>;
  readonly #verdicts: readonly SharedArrayBuffer[];
  readonly #events: HttpThreadEvents;
  #folder: string | undefined;
  #threads: readonly WorkerThread[] = [];
  #sockets: string[] = [];

  /** `verdicts` are those of the workers, in their order. */
  constructor(
    count: number,
    counts: Omit<CommonCounts, 'verdicts'>,
    verdicts: readonly SharedArrayBuffer[],
    events: HttpThreadEvents,
  ) {
    this.#count = count;
    this.#counts = counts;
    this.#verdicts = verdicts;
    this.#events = events;
  }

  /** None before start(). */
  get threads(): readonly WorkerThread[] {
    return this.#threads;
  }

  /** Where they listen, by thread. */
  get sockets(): readonly string[] {
    return this.#sockets;
  }

  async start(options: HttpThreadOptions): Promise<void> {
    // Created with mode 0700.
    const folder = await mkdtemp(join(tmpdir(), 'causeway-'));
    this.#folder = folder;
    // Their own rows hold requests, of which no other thread says anything.
    const counts = { ...this.#counts, verdicts: new Verdicts(new SharedArrayBuffer(0)) };
    const threads = Array.from({ length: this.#count }, (_, number) => {
      const thread: WorkerThread = new WorkerThread(number, 'http', counts, {
        message: message => this.#events.message(message),
        died: cause => this.#events.died(thread, cause),
      });
      return thread;
    });
    this.#sockets = threads.map(({ number }) => join(folder, `${number}`));
    this.#threads = threads;
    await Promise.all(threads.map(thread => this.#startOne(thread, options)));
  }

  restart(thread: WorkerThread, options: HttpThreadOptions): Promise<boolean> {
    return this.#startOne(thread, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#threads.map(thread => thread.end()));
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
  }

  async #startOne(thread: WorkerThread, options: HttpThreadOptions): Promise<boolean> {
    const socket = this.#sockets[thread.number];
    // That of one that died stands in the way.
    await rm(socket, { force: true });
    return thread.start({ ...options, socket, verdicts: this.#verdicts });
  }
}
