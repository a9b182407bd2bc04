// One thread that serves clients, a worker or one of a part of ours, as the control thread sees it: messages there and back,
// its part of the shared memory, and what has to be put right when it dies. The descriptors of an epoll reactor outlive their thread, so they are closed here.

import { randomInt } from 'node:crypto';
import { closeSync, writeSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { newRecordRing, RecordReader, RecordWriter } from '../shared/record-ring.ts';
import { FREE, LENT, REQUEST, Rows } from '../shared/rows.ts';
import { KEPT_AT } from '../shared/shared-memory.ts';
import { OwnPages } from '../shared/shared-pages.ts';
import type { Verdicts } from '../shared/verdicts.ts';
import { conclude, isClient, type Ledger, leavePlace } from '../stages/account.ts';
import type { FromWorker, PartStart, RowTexts, ToWorker, WorkerStart } from './worker-messages.ts';

export type ThreadKind = 'worker' | 'http' | 'tls';

/** What differs between them. */
export type StartOptions = { readonly capacity: number } & (
  | Omit<WorkerStart, 'number' | 'rows' | 'records'>
  | Omit<PartStart, 'number' | 'rows'>
);

/** Where the counts that it shares with others are; those of its own it has by itself. */
export type CommonCounts = Omit<Ledger, 'counters' | 'records'>;

export interface ThreadEvents {
  /** Messages that are not the answer to a request. */
  message(message: FromWorker): void;
  /** It ended without being told to; everything of its is cleaned up. */
  died(cause: Error): void;
}

/** What a request waits for. */
type Answer = Extract<FromWorker, { kind: 'started' | 'opened' | 'applied' | 'described' | 'revoked' }>;

/** A thread that does not end by itself within this is ended by force. */
const END_MS = 2000;

/** Rows described in one go: what a worker does in well under a millisecond, before it goes back to its tunnels. */
const DESCRIBED_AT_ONCE = 500;

const wakeUp = new Uint8Array(new BigUint64Array([1n]).buffer);

export class WorkerThread {
  readonly number: number;
  readonly kind: ThreadKind;
  /** Kept over a restart: what was counted stays counted. */
  readonly pages: OwnPages;
  readonly records: RecordReader;
  readonly #ring = newRecordRing();
  readonly #counts: CommonCounts;
  readonly #events: ThreadEvents;
  readonly #waiting = new Map<string, (answer: Answer | undefined) => void>();
  #worker: Worker | undefined;
  #rows: Rows | undefined;
  /** Another number for each start, in this process or another: generations of rows begin anew with it. */
  #life = 0;
  #requests = 0;
  /** Of an epoll reactor: the one to wake it by, and all. */
  #wakeFd: number | undefined;
  #fds: readonly number[] = [];
  #ending = false;
  #cause: Error | undefined;

  constructor(number: number, kind: ThreadKind, counts: CommonCounts, events: ThreadEvents) {
    this.number = number;
    this.kind = kind;
    this.pages = new OwnPages(kind === 'http');
    this.#counts = counts;
    this.#events = events;
    this.records = new RecordReader(this.#ring);
  }

  get name(): string {
    return `${this.kind}-${this.number}`;
  }

  /** Resolves when it takes messages. False when it died before that. */
  async start(options: StartOptions): Promise<boolean> {
    const rows = Rows.memory(options.capacity);
    this.#rows = new Rows(rows);
    this.#life = randomInt(2 ** 40);
    this.pages.given = { clusters: 0, routes: 0, backends: 0 };
    const start = { ...options, number: this.number, rows, records: this.#ring };
    const answer = this.#answer('started');
    const worker = new Worker(entryOf(this.kind), { workerData: start, name: `causeway-${this.name}` });
    this.#worker = worker;
    this.#cause = undefined;
    worker.on('message', (message: FromWorker) => this.#message(message));
    worker.on('error', error => {
      this.#cause = error as Error;
    });
    worker.on('exit', code => this.#exited(code));
    return (await answer) !== undefined;
  }

  send(message: ToWorker): void {
    this.#worker?.postMessage(message);
    if (this.#wakeFd !== undefined) writeSync(this.#wakeFd, wakeUp);
  }

  /** Opens a listener; a port, an error word, or undefined when the worker died over it. */
  async open(message: Extract<ToWorker, { kind: 'open' }>): Promise<number | undefined> {
    const answer = this.#answer(`opened ${message.index}`);
    this.send(message);
    const opened = await answer;
    return opened?.kind === 'opened' ? opened.result : undefined;
  }

  async apply(message: Extract<ToWorker, { kind: 'table' }>): Promise<void> {
    const answer = this.#answer(`applied ${message.generation}`);
    this.send(message);
    await answer;
  }

  get verdicts(): Verdicts {
    return this.#counts.verdicts;
  }

  /** Its rows, to be read; undefined while it does not run. */
  get rows(): Rows | undefined {
    return this.#rows;
  }

  get life(): number {
    return this.#life;
  }

  /** What only the worker knows of these connections; null for those that have ended, all when that life has. */
  async describe(
    life: number,
    asked: readonly { readonly handle: number; readonly generation: number }[],
  ): Promise<readonly (RowTexts | null)[]> {
    const texts: (RowTexts | null)[] = [];
    while (texts.length < asked.length) {
      const some = asked.slice(texts.length, texts.length + DESCRIBED_AT_ONCE);
      const described = await this.#ask(life, {
        kind: 'describe',
        request: this.#requests++,
        handles: Int32Array.from(some, row => row.handle),
        generations: Uint32Array.from(some, row => row.generation),
      });
      texts.push(...(described?.kind === 'described' ? described.texts : some.map(() => null)));
    }
    return texts;
  }

  /** Ends a connection with `revoked`. False when it is not open any more. */
  async revoke(life: number, handle: number, generation: number): Promise<boolean> {
    const revoked = await this.#ask(life, {
      kind: 'revoke',
      request: this.#requests++,
      handle,
      generation,
    });
    return revoked?.kind === 'revoked' && revoked.done;
  }

  /** Tells it to stop and waits until it has: only it knows which descriptors are still its own. */
  async end(): Promise<void> {
    const worker = this.#worker;
    this.#ending = true;
    if (worker === undefined) return;
    const exited = new Promise<void>(resolve => worker.once('exit', () => resolve()));
    this.send({ kind: 'stop' });
    const late = setTimeout(() => this.kill(), END_MS);
    await exited;
    clearTimeout(late);
    this.#worker = undefined;
    this.#wakeFd = undefined;
    this.#closeFds();
    this.#answerNobody();
  }

  /** Ends it as a fault would. For tests of what follows. */
  kill(): void {
    void this.#worker?.terminate();
    if (this.#wakeFd !== undefined) writeSync(this.#wakeFd, wakeUp);
  }

  /** Undefined also when it does not live that life any more: rows are others then. */
  async #ask(
    life: number,
    question: Extract<ToWorker, { kind: 'describe' | 'revoke' }>,
  ): Promise<Answer | undefined> {
    if (this.#worker === undefined || this.#life !== life) return undefined;
    const answer = this.#answer(`answer ${question.request}`);
    this.send(question);
    return answer;
  }

  #answer(key: string): Promise<Answer | undefined> {
    return new Promise(resolve => this.#waiting.set(key, resolve));
  }

  #message(message: FromWorker): void {
    switch (message.kind) {
      case 'started':
        this.#wakeFd = message.wakeFd;
        this.#fds = [message.wakeFd, message.epollFd].filter(fd => fd !== undefined);
        this.#resolve('started', message);
        break;
      case 'opened':
        this.#resolve(`opened ${message.index}`, message);
        break;
      case 'applied':
        this.#resolve(`applied ${message.generation}`, message);
        break;
      case 'described':
      case 'revoked':
        this.#resolve(`answer ${message.request}`, message);
        break;
      default:
        this.#events.message(message);
    }
  }

  #resolve(key: string, answer: Answer | undefined): void {
    this.#waiting.get(key)?.(answer);
    this.#waiting.delete(key);
  }

  #exited(code: number): void {
    if (this.#ending) return;
    this.#worker = undefined;
    this.#wakeFd = undefined;
    if (this.#rows !== undefined) this.#bury(this.#rows);
    this.#rows = undefined;
    this.#closeFds();
    this.#answerNobody();
    this.#events.died(this.#cause ?? new Error(`The thread ended with exit code ${code}`));
  }

  #answerNobody(): void {
    for (const key of this.#waiting.keys()) this.#resolve(key, undefined);
  }

  /** Its connections end with `shutdown`. Where handles are descriptors, they are closed. */
  #bury(rows: Rows): void {
    const records = new RecordWriter(this.#ring, () => {});
    const ledger = { ...this.#counts, counters: this.pages.counters, records };
    const now = performance.timeOrigin + performance.now();
    this.pages.counters.clearField(KEPT_AT);
    for (let handle = 0; handle < rows.capacity; handle++) {
      if (isClient(rows, handle)) this.#buryClient(rows, ledger, handle, now);
      else if (rows.state[handle] === REQUEST) leavePlace(rows, ledger, handle);
      if (rows.state[handle] !== FREE && this.#fds.length > 0) closeQuietly(handle);
    }
  }

  #buryClient(rows: Rows, ledger: Ledger, client: number, now: number): void {
    const lent = (rows.flags[client] & LENT) === 0 ? undefined : ledger.verdicts.takeBack(client);
    if (lent !== undefined) closeQuietly(lent);
    conclude(rows, ledger, client, 'shutdown', now, 'all');
  }

  #closeFds(): void {
    for (const fd of this.#fds) closeQuietly(fd);
    this.#fds = [];
  }
}

function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // It was closed already; there is nothing to put right.
  }
}

/** This file is TypeScript in a checkout and JavaScript in a package; so is the thread's beside it. */
function entryOf(kind: ThreadKind): URL {
  const name = kind === 'worker' ? '../worker' : `../${kind}/${kind}-worker`;
  return new URL(import.meta.url.endsWith('.ts') ? `${name}.ts` : `${name}.js`, import.meta.url);
}
