// The health checks as the control thread sees them: what is to be checked goes to a thread of its own, changes of
// state come back. The thread starts with the first backend to check. After its death somebody revives it: what it had
// found out stands in shared memory.

import { Worker } from 'node:worker_threads';
import {
  BACKEND_CHECKS_FAILED,
  BACKEND_CHECKS_OK,
  BACKEND_DOWN,
  type SharedSlots,
} from '../shared/shared-memory.ts';
import type { RouteSlot } from '../table/table-author.ts';
import type { FromHealth, HealthStart, ToHealth } from './health-messages.ts';
import type { HealthTarget } from './health-target.ts';
import { setDown } from './set-down.ts';

/** A backend went down or came back. */
export interface HealthChange {
  readonly cluster: string;
  readonly route: string;
  readonly backend: string;
  readonly up: boolean;
  /** A few words, such as `connection refused` or `HTTP 500`. */
  readonly why: string;
}

export interface BackendHealth {
  readonly up: boolean;
  /** Whether it has been checked at all. */
  readonly checked: boolean;
  /** Of the last change, if there was one: when, in ms since 1970, and why. */
  readonly since?: number;
  readonly why?: string;
}

/** A backend that is served, and how it is checked, if it is. */
export interface ServedBackend {
  readonly slot: number;
  readonly route: RouteSlot;
  readonly backend: string;
  readonly target: HealthTarget | undefined;
}

export interface HealthThreadOptions {
  readonly backends: SharedSlots;
  /** Memory behind `backends`; grows. */
  readonly pages: readonly SharedArrayBuffer[];
  readonly totals: SharedArrayBuffer;
  readonly onChange: (change: HealthChange) => void;
  /** Somebody calls revive() after a while. */
  readonly onDeath: (cause: Error) => void;
}

interface Known extends ServedBackend {
  readonly target: HealthTarget;
  /** Of the target but for its addresses, to see whether it changed. */
  readonly text: string;
  last?: { readonly since: number; readonly why: string };
}

export class HealthThread implements AsyncDisposable {
  readonly #options: HealthThreadOptions;
  readonly #totals: Int32Array;
  readonly #known = new Map<number, Known>();
  #worker: Worker | undefined;
  /** How many of the pages the thread has. */
  #pagesSent = 0;
  #stretch = 1;
  #isDead = false;
  #ended = false;

  constructor(options: HealthThreadOptions) {
    this.#options = options;
    this.#totals = new Int32Array(options.totals);
  }

  get stretch(): number {
    return this.#stretch;
  }

  /** Only what changed is told, so that the rest keeps its place in the schedule. */
  change(served: Iterable<ServedBackend>, freed: readonly number[]): void {
    const put: HealthTarget[] = [];
    const removed = freed.filter(slot => this.#forget(slot));
    for (const backend of served) {
      const { slot, target } = backend;
      const before = this.#known.get(slot);
      if (target === undefined) {
        if (before === undefined) continue;
        const wasDown = !this.of(slot).up;
        removed.push(slot);
        this.#forget(slot);
        if (wasDown) this.#tell(before, true, 'it is not checked any more');
        continue;
      }
      const text = JSON.stringify({ ...target, addresses: [] });
      const last = before?.last;
      this.#known.set(slot, { ...backend, target, text, ...(last !== undefined && { last }) });
      if (before?.text !== text) put.push(target);
    }
    if (put.length === 0 && removed.length === 0) return;
    if (this.#worker === undefined) this.#startFirst();
    else this.#send({ kind: 'targets', pages: this.#newPages(), put, removed });
  }

  /** A name has other addresses. */
  setAddresses(backends: readonly (readonly [slot: number, addresses: readonly string[]])[]): void {
    for (const [slot, addresses] of backends) {
      const known = this.#known.get(slot);
      if (known !== undefined) this.#known.set(slot, { ...known, target: { ...known.target, addresses } });
    }
    this.#send({ kind: 'addresses', backends });
  }

  of(slot: number): BackendHealth {
    const { backends } = this.#options;
    const { ok, failed } = this.checksOf(slot) ?? { ok: 0, failed: 0 };
    return {
      up: backends.get(slot, BACKEND_DOWN) === 0,
      checked: ok + failed > 0,
      ...this.#known.get(slot)?.last,
    };
  }

  /** undefined for a backend that is not checked. Counters of 32 bits that begin anew when they are full. */
  checksOf(slot: number): { readonly ok: number; readonly failed: number } | undefined {
    if (!this.#known.has(slot)) return undefined;
    const { backends } = this.#options;
    return {
      ok: backends.get(slot, BACKEND_CHECKS_OK) >>> 0,
      failed: backends.get(slot, BACKEND_CHECKS_FAILED) >>> 0,
    };
  }

  /** For a slot that is given to another backend. */
  clear(slot: number): void {
    const { backends } = this.#options;
    setDown(backends, this.#totals, slot, false);
    backends.set(slot, BACKEND_CHECKS_OK, 0);
    backends.set(slot, BACKEND_CHECKS_FAILED, 0);
  }

  /** Ends it as a fault would. For tests of what follows. */
  kill(): void {
    void this.#worker?.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended = true;
    await this.#worker?.terminate();
  }

  /** Starts it again after its death. Answers why that could not be done. */
  async revive(): Promise<Error | undefined> {
    this.#isDead = false;
    const failure = this.#start();
    this.#isDead = failure !== undefined;
    return failure;
  }

  #forget(slot: number): boolean {
    setDown(this.#options.backends, this.#totals, slot, false);
    return this.#known.delete(slot);
  }

  #startFirst(): void {
    const failure = this.#start();
    if (failure !== undefined) this.#died(failure);
  }

  #start(): Error | undefined {
    if (this.#ended || this.#isDead || this.#known.size === 0) return undefined;
    const start: HealthStart = { totals: this.#options.totals };
    let worker: Worker;
    try {
      worker = new Worker(workerEntry(), { workerData: start, name: 'causeway-health' });
    } catch (error) {
      // The system has no thread left.
      return error as Error;
    }
    let cause: Error | undefined;
    worker.on('message', (message: FromHealth) => this.#message(message));
    worker.on('error', error => {
      cause = error as Error;
    });
    worker.on('exit', code => this.#died(cause ?? new Error(`The thread ended with exit code ${code}`)));
    this.#worker = worker;
    this.#pagesSent = 0;
    const put = Array.from(this.#known.values(), ({ target }) => target);
    this.#send({ kind: 'targets', pages: this.#newPages(), put, removed: [] });
    return undefined;
  }

  #died(cause: Error): void {
    this.#worker = undefined;
    if (this.#ended) return;
    this.#isDead = true;
    this.#options.onDeath(cause);
  }

  #newPages(): readonly SharedArrayBuffer[] {
    const pages = this.#options.pages.slice(this.#pagesSent);
    this.#pagesSent += pages.length;
    return pages;
  }

  #send(message: ToHealth): void {
    this.#worker?.postMessage(message);
  }

  #message(message: FromHealth): void {
    if (message.kind === 'stretch') {
      this.#stretch = message.stretch;
      return;
    }
    const known = this.#known.get(message.slot);
    // Otherwise it was removed while the message was under way.
    if (known !== undefined) this.#tell(known, message.up, message.why);
  }

  #tell(known: Known, up: boolean, why: string): void {
    known.last = { since: Date.now(), why };
    this.#options.onChange({ ...known.route, backend: known.backend, up, why });
  }
}

/** This file is TypeScript in a checkout and JavaScript in a package; so is the worker beside it. */
function workerEntry(): URL {
  return new URL(
    import.meta.url.endsWith('.ts') ? './health-worker.ts' : './health-worker.js',
    import.meta.url,
  );
}
