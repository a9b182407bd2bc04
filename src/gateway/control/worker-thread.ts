// A worker or a stream thread as the control thread sees it: questions that always end (with an answer, the
// thread's death or a deadline), its shared memory, and the cleanup after its death. The descriptors of an epoll
// reactor outlive their thread, so they are closed here.

import { randomInt } from 'node:crypto';
import { closeSync, writeSync } from 'node:fs';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { threadEntry } from '../../program-file.ts';
import type { ResetOnClose } from '../io/set-linger.ts';
import { newRecordRing, RecordReader, RecordWriter } from '../shared/record-ring.ts';
import { Rows } from '../shared/rows.ts';
import { KEPT_AT } from '../shared/shared-memory.ts';
import { OwnPages } from '../shared/shared-pages.ts';
import { ThreadControl } from '../shared/thread-control.ts';
import { type EndRecorder, isCounted, recordEnd } from '../stages/record-end.ts';
import { threadHeaps } from './thread-heaps.ts';
import type {
  Answer,
  FromWorker,
  Pages,
  Question,
  RowTexts,
  TableMessage,
  ToWorker,
  WorkerStart,
} from './worker-messages.ts';

export type ThreadKind = 'worker' | 'stream';

/** The rest is added by start(). */
export type StartOptions = Omit<
  WorkerStart,
  'name' | 'number' | 'rows' | 'records' | 'control' | 'isGiven' | 'arrivals'
>;

/** The counts shared with other threads; the thread's own counts are in its pages. */
export type CommonCounts = Omit<EndRecorder, 'counters' | 'records'>;

export interface ThreadEvents {
  /** Messages that are not the answer to a question. */
  message(message: FromWorker): void;
  /** It ended unexpectedly after it had started; everything it held is cleaned up. */
  died(cause: Error): void;
}

/**
 * A thread that has not answered by then is stuck, and is ended. Long enough for the first table of a large estate on a
 * busy machine.
 */
const ANSWER_MS = 30_000;
/** For questions that a person waits for: the list of connections, and the end of one. They may stay unanswered. */
const LOOK_UP_MS = 5000;
/** A thread that does not stop within this time is terminated, and after the same time again abandoned. */
const END_MS = 2000;

/** Rows described in one message: a worker does that in well under a millisecond, then returns to its tunnels. */
const DESCRIBED_AT_ONCE = 500;

const wakeBytes = new Uint8Array(new BigUint64Array([1n]).buffer);

/** A question without its number. */
type Asked<Kind extends Question['kind']> = Omit<Extract<Question, { kind: Kind }>, 'request'>;

/** The state of one run; a restart replaces it. */
interface Running {
  readonly worker: Worker;
  readonly control: ThreadControl;
  readonly rows: Rows;
  readonly arrivals: Rows;
  /** The memory of both, for those that give it connections. */
  readonly memory: { readonly arrivals: SharedArrayBuffer; readonly control: SharedArrayBuffer };
  /** Why it ends, if that is known in advance. */
  cause?: Error;
  readonly exited: Promise<void>;
}

export class WorkerThread {
  readonly kind: ThreadKind;
  /** Unique among the threads of a gateway; ids of connections name it. */
  readonly number: number;
  readonly name: string;
  /** Kept over restarts, so that no count is lost. */
  readonly pages: OwnPages;
  readonly records: RecordReader;
  readonly #ring = newRecordRing();
  readonly #counts: CommonCounts;
  readonly #events: ThreadEvents;
  readonly #resetOnClose: ResetOnClose | undefined;
  readonly #waiting = new Map<number, (answer: Answer | undefined) => void>();
  #running: Running | undefined;
  /** Differs for each start, in this process or another: generations of rows start over with it. */
  #lifetime = 0;
  #requests = 0;
  #isStarted = false;
  #isEnding = false;

  /** `index` is its place among the threads of its kind. `resetOnClose` is for threads whose descriptors outlive them. */
  constructor(
    kind: ThreadKind,
    index: number,
    number: number,
    counts: CommonCounts,
    events: ThreadEvents,
    resetOnClose?: ResetOnClose,
  ) {
    this.number = number;
    this.kind = kind;
    this.name = `${kind}-${index}`;
    this.pages = new OwnPages(kind === 'worker');
    this.#counts = counts;
    this.#events = events;
    this.#resetOnClose = resetOnClose;
    this.records = new RecordReader(this.#ring);
  }

  /** Whether it takes messages. */
  get isUp(): boolean {
    return this.#isStarted;
  }

  /** Resolves when the thread takes messages, or to the error if it never will. */
  async start(options: StartOptions): Promise<Error | undefined> {
    if (this.#isEnding) return new Error('The gateway is ending');
    const rows = Rows.memory(options.capacity);
    const control = ThreadControl.memory(options.capacity);
    const isGiven = this.kind === 'stream';
    // A worker gives connections to itself one at a time, and may die in between.
    const arrivals = Rows.memory(isGiven ? options.capacity : 1);
    this.#lifetime = randomInt(2 ** 40);
    this.pages.given = { clusters: 0, routes: 0, backends: 0 };
    const workerData: WorkerStart = {
      ...options,
      name: this.name,
      number: this.number,
      rows,
      control,
      records: this.#ring,
      isGiven,
      arrivals,
    };
    const started = Promise.withResolvers<void>();
    const exited = Promise.withResolvers<void>();
    let worker: Worker;
    try {
      worker = new Worker(threadEntry('gateway/worker'), {
        workerData,
        name: `causeway-${this.name}`,
        resourceLimits: threadHeaps[this.kind],
      });
    } catch (error) {
      // The system cannot create another thread.
      return error as Error;
    }
    const running: Running = {
      worker,
      control: new ThreadControl(control),
      rows: new Rows(rows),
      arrivals: new Rows(arrivals),
      memory: { arrivals, control },
      exited: exited.promise,
    };
    this.#running = running;
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'started') started.resolve();
      else this.#onMessage(message);
    });
    worker.on('error', error => {
      running.cause ??= error as Error;
    });
    worker.on('exit', code => {
      running.cause ??= new Error(`The thread ended with exit code ${code}`);
      this.#onExit(running, running.cause);
      exited.resolve();
    });
    const deadline = setTimeout(() => this.kill(tooLate('start', ANSWER_MS)), ANSWER_MS);
    await Promise.race([started.promise, exited.promise]);
    clearTimeout(deadline);
    if (this.#running !== running) return running.cause;
    this.#isStarted = true;
    return undefined;
  }

  send(message: ToWorker, transferred: readonly MessagePort[] = []): void {
    this.#running?.worker.postMessage(message, transferred);
    this.#wake();
  }

  /** That worker gives its connections to this thread from now on. */
  receiveFrom(worker: WorkerThread): void {
    if (this.#running === undefined) return;
    const { port1, port2 } = new MessageChannel();
    this.send({ kind: 'gifts', port: port1 }, [port1]);
    worker.send({ kind: 'streams', thread: { port: port2, ...this.#running.memory } }, [port2]);
  }

  /** Opens a listener. Resolves to undefined if the thread is gone. */
  async open(question: Asked<'open'>): Promise<Extract<Answer, { kind: 'opened' }> | undefined> {
    const opened = await this.#ask({ ...question, request: this.#requests++ }, ANSWER_MS);
    return opened?.kind === 'opened' ? opened : undefined;
  }

  /** When it resolves, listeners that were closing are closed, or the thread is gone. */
  async listenersClosed(): Promise<void> {
    await this.#ask({ kind: 'listeners-closed', request: this.#requests++ }, ANSWER_MS);
  }

  /** When it resolves, the thread has the memory for new slots, or is gone. */
  async use(pages: Pages): Promise<void> {
    await this.#ask({ kind: 'pages', request: this.#requests++, pages }, ANSWER_MS);
  }

  /** When it resolves, the thread serves the table, or is gone. */
  async apply(table: Omit<TableMessage, 'kind' | 'request'>): Promise<void> {
    await this.#ask({ kind: 'table', request: this.#requests++, ...table }, ANSWER_MS);
  }

  /** Its rows, for reading; undefined while it does not run. */
  get rows(): Rows | undefined {
    return this.#running?.rows;
  }

  get lifetime(): number {
    return this.#lifetime;
  }

  /** The texts of these connections; null for those that have ended, and for all if the lifetime has. */
  async describe(
    lifetime: number,
    asked: readonly { readonly handle: number; readonly generation: number }[],
  ): Promise<readonly (RowTexts | null)[]> {
    const texts: (RowTexts | null)[] = [];
    while (texts.length < asked.length) {
      const some = asked.slice(texts.length, texts.length + DESCRIBED_AT_ONCE);
      const described = await this.#lookUp(lifetime, {
        kind: 'describe',
        request: this.#requests++,
        handles: Int32Array.from(some, row => row.handle),
        generations: Uint32Array.from(some, row => row.generation),
      });
      texts.push(...(described?.kind === 'described' ? described.texts : some.map(() => null)));
    }
    return texts;
  }

  /** Ends a connection with `revoked`. False if it is no longer open. */
  async revoke(lifetime: number, handle: number, generation: number): Promise<boolean> {
    const revoked = await this.#lookUp(lifetime, {
      kind: 'revoke',
      request: this.#requests++,
      handle,
      generation,
    });
    return revoked?.kind === 'revoked' && revoked.done;
  }

  /** Stops the thread and waits for a bounded time: only the thread knows which descriptors are still its own. */
  async end(): Promise<void> {
    this.#isEnding = true;
    const running = this.#running;
    if (running === undefined) return;
    this.send({ kind: 'stop' });
    if (await endsWithin(running, END_MS)) return;
    this.kill();
    await endsWithin(running, END_MS);
  }

  /** Ends the thread as a fault would, whatever it is doing. */
  kill(cause?: Error): void {
    if (this.#running === undefined || this.#running.control.isStopping) return;
    if (cause !== undefined) this.#running.cause ??= cause;
    this.#running.control.stop();
    this.#running.control.awaitLeft();
    void this.#running.worker.terminate();
    this.#wake();
  }

  /** undefined also if the thread has restarted since: its rows are different then. */
  async #lookUp(
    lifetime: number,
    question: Extract<Question, { kind: 'describe' | 'revoke' }>,
  ): Promise<Answer | undefined> {
    return this.#lifetime === lifetime ? this.#ask(question, LOOK_UP_MS) : undefined;
  }

  /** Resolves to the answer; to undefined if there is no thread, it dies, or it takes too long. */
  async #ask(question: Question, limitMs: number): Promise<Answer | undefined> {
    if (!this.#isStarted) return undefined;
    const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
    this.#waiting.set(question.request, resolve);
    this.send(question);
    const deadline = setTimeout(() => {
      if (limitMs === ANSWER_MS) this.kill(tooLate(question.kind, limitMs));
      this.#resolve(question.request, undefined);
    }, limitMs);
    const answer = await promise;
    clearTimeout(deadline);
    return answer;
  }

  #wake(): void {
    const wakeFd = this.#running?.control.wakeFd;
    if (wakeFd !== undefined) writeSync(wakeFd, wakeBytes);
  }

  #onMessage(message: FromWorker): void {
    if ('request' in message) this.#resolve(message.request, message);
    else this.#events.message(message);
  }

  #resolve(request: number, answer: Answer | undefined): void {
    this.#waiting.get(request)?.(answer);
    this.#waiting.delete(request);
  }

  #onExit(running: Running, cause: Error): void {
    const wasStarted = this.#isStarted;
    this.#isStarted = false;
    this.#running = undefined;
    running.control.over();
    this.#cleanUp(running);
    for (const fd of running.control.descriptors) closeQuietly(fd);
    for (const request of this.#waiting.keys()) this.#resolve(request, undefined);
    if (wasStarted && !this.#isEnding) this.#events.died(cause);
  }

  /** Ends its connections with `shutdown`, and resets those whose descriptors its reactor has left open. */
  #cleanUp({ rows, arrivals, control }: Running): void {
    const records = new RecordWriter(this.#ring, () => {});
    const recorder = { ...this.#counts, counters: this.pages.counters, records };
    const now = performance.timeOrigin + performance.now();
    this.pages.counters.clearField(KEPT_AT);
    for (const table of [rows, arrivals])
      for (let handle = 0; handle < table.used; handle++) {
        if (isCounted(table, handle)) recordEnd(table, recorder, handle, 'shutdown', now, 'all');
      }
    // The side that clears the mark closes it: a worker may just be giving this thread a connection.
    for (let fd = 0; fd < control.held.length; fd++) {
      if (control.held[fd] === 0 || Atomics.exchange(control.held, fd, 0) === 0) continue;
      this.#resetOnClose?.(fd);
      closeQuietly(fd);
    }
  }
}

function tooLate(what: string, ms: number): Error {
  return new Error(`The thread did not answer '${what}' within ${ms / 1000} s`);
}

async function endsWithin({ exited }: Running, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>(resolve => {
    timer = setTimeout(resolve, ms, false);
  });
  const ended = await Promise.race([exited.then(() => true), late]);
  clearTimeout(timer);
  return ended;
}

function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // It was already closed.
  }
}
