// The health thread as the control thread sees it: targets go to it, changes of state come back. It starts with the
// first backend to check. When it dies, its owner starts it again; the states it found are in shared memory.

import { Worker } from 'node:worker_threads';
import { threadEntry } from '../../program-file.ts';
import { threadHeaps } from '../control/thread-heaps.ts';
import type { FaultReport } from '../fault-log.ts';
import {
  BACKEND_CHECKS_FAILED,
  BACKEND_CHECKS_OK,
  BACKEND_DOWN,
  type SharedSlots,
} from '../shared/shared-memory.ts';
import type { RouteSlot } from '../table/table.ts';
import type { FromHealth, HealthStart, ToHealth } from './health-messages.ts';
import type { HealthTarget } from './health-target.ts';
import { forgetHealth, wasChecked } from './shared-health.ts';

/** A backend went down or came back, or is no longer checked. */
export interface HealthChange {
  readonly cluster: string;
  readonly route: string;
  readonly backend: string;
  /** null: unknown. */
  readonly up: boolean | null;
  /** A few words, such as `connection refused` or `HTTP 500`. */
  readonly why: string;
}

export interface BackendHealth {
  /** null until its first check, and if it is not checked. */
  readonly up: boolean | null;
  /** The last change, if there was one: when, in ms since 1970, and why. */
  readonly since?: number;
  readonly why?: string;
}

/** A backend that is served, and how it is checked, if at all. */
export interface ServedBackend {
  readonly slot: number;
  readonly route: RouteSlot;
  readonly backend: string;
  readonly target: HealthTarget | undefined;
}

export interface HealthThreadOptions {
  readonly backends: SharedSlots;
  /** The memory behind `backends`; it grows. */
  readonly pages: readonly SharedArrayBuffer[];
  readonly totals: SharedArrayBuffer;
  /** Whether the name of that backend has not been looked up yet. */
  readonly isPending: (slot: number) => boolean;
  readonly onChange: (change: HealthChange) => void;
  /** The owner calls revive() after a while. */
  readonly onDeath: (cause: Error) => void;
  /** Our own code threw in a check. */
  readonly onFault: (report: FaultReport) => void;
}

interface Known extends ServedBackend {
  readonly target: HealthTarget;
  /** The target without its addresses, to detect changes. */
  readonly text: string;
  last?: { readonly since: number; readonly why: string };
}

export class HealthThread implements AsyncDisposable {
  readonly #options: HealthThreadOptions;
  readonly #totals: Int32Array;
  readonly #known = new Map<number, Known>();
  #worker: Worker | undefined;
  /** How many pages the thread has. */
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

  /** Sends only what changed, so that the rest keeps its place in the schedule. */
  change(served: Iterable<ServedBackend>, freed: readonly number[]): void {
    const put: HealthTarget[] = [];
    const removed = freed.filter(slot => this.#forget(slot));
    for (const backend of served) {
      const { slot, target } = backend;
      const before = this.#known.get(slot);
      if (target === undefined) {
        if (before === undefined) continue;
        const wasDown = this.of(slot).up === false;
        removed.push(slot);
        this.#forget(slot);
        if (wasDown) this.#reportChange(before, null, 'no longer checked');
        continue;
      }
      const text = JSON.stringify({ ...target, addresses: [] });
      const last = before?.last;
      this.#known.set(slot, { ...backend, target, text, ...(last !== undefined && { last }) });
      if (before?.text !== text) put.push(target);
    }
    if (put.length === 0 && removed.length === 0) return;
    if (this.#worker === undefined) this.#startFirst();
    else this.#sendTargets(put, removed);
  }

  /** The addresses of a name have changed. */
  setAddresses(backends: readonly (readonly [slot: number, addresses: readonly string[]])[]): void {
    for (const [slot, addresses] of backends) {
      const known = this.#known.get(slot);
      if (known !== undefined) this.#known.set(slot, { ...known, target: { ...known.target, addresses } });
    }
    this.#send({ kind: 'addresses', backends });
  }

  of(slot: number): BackendHealth {
    const { backends } = this.#options;
    const known = this.#known.get(slot);
    if (known === undefined || !wasChecked(backends, slot)) return { up: null };
    return { up: backends.get(slot, BACKEND_DOWN) === 0, ...known.last };
  }

  /** undefined for a backend that is not checked. 32-bit counters that wrap around. */
  checksOf(slot: number): { readonly ok: number; readonly failed: number } | undefined {
    if (!this.#known.has(slot)) return undefined;
    const { backends } = this.#options;
    return {
      ok: backends.get(slot, BACKEND_CHECKS_OK) >>> 0,
      failed: backends.get(slot, BACKEND_CHECKS_FAILED) >>> 0,
    };
  }

  /** For a slot that another backend gets. */
  clear(slot: number): void {
    forgetHealth(this.#options.backends, this.#totals, slot);
  }

  /** Ends the thread as a fault would, for tests. */
  kill(): void {
    void this.#worker?.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended = true;
    await this.#worker?.terminate();
  }

  /** Starts the thread again after its death. Resolves to the error if that fails. */
  async revive(): Promise<Error | undefined> {
    this.#isDead = false;
    const failure = this.#start();
    this.#isDead = failure !== undefined;
    return failure;
  }

  #forget(slot: number): boolean {
    this.clear(slot);
    return this.#known.delete(slot);
  }

  #startFirst(): void {
    const failure = this.#start();
    if (failure !== undefined) this.#onDeath(failure);
  }

  #start(): Error | undefined {
    if (this.#ended || this.#isDead || this.#known.size === 0) return undefined;
    const start: HealthStart = { totals: this.#options.totals };
    let worker: Worker;
    try {
      worker = new Worker(threadEntry('gateway/health/health-worker'), {
        workerData: start,
        name: 'causeway-health',
        resourceLimits: threadHeaps.health,
      });
    } catch (error) {
      // The system has no thread left.
      return error as Error;
    }
    let cause: Error | undefined;
    worker.on('message', (message: FromHealth) => this.#onMessage(message));
    worker.on('error', error => {
      cause = error as Error;
    });
    worker.on('exit', code => this.#onDeath(cause ?? new Error(`The thread ended with exit code ${code}`)));
    this.#worker = worker;
    this.#pagesSent = 0;
    const put = Array.from(this.#known.values(), ({ target }) => target);
    this.#sendTargets(put, []);
    return undefined;
  }

  #sendTargets(targets: readonly HealthTarget[], removed: readonly number[]): void {
    const put = targets.map(target => ({ ...target, isPending: this.#options.isPending(target.slot) }));
    this.#send({ kind: 'targets', pages: this.#newPages(), put, removed });
  }

  #onDeath(cause: Error): void {
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

  #onMessage(message: FromHealth): void {
    if (message.kind === 'stretch') {
      this.#stretch = message.stretch;
      return;
    }
    if (message.kind === 'fault') {
      const about = this.#known.get(Number(message.report.about.slot));
      const named = about === undefined ? {} : { ...about.route, backend: about.backend };
      this.#options.onFault({ ...message.report, about: named });
      return;
    }
    const known = this.#known.get(message.slot);
    // Otherwise it was removed while the message was on its way.
    if (known !== undefined) this.#reportChange(known, message.up, message.why);
  }

  #reportChange(known: Known, up: boolean | null, why: string): void {
    known.last = { since: Date.now(), why };
    this.#options.onChange({ ...known.route, backend: known.backend, up, why });
  }
}
