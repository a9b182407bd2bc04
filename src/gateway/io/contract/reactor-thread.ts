// The suite's side of a thread with a reactor under test: sends requests and waits for reports. Disposing of it stops
// the reactor, waits for the thread to end on its own, and fails if an event came for a closed handle.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { AGAIN, type SocketAddress } from '../reactor.ts';
import type {
  Answer,
  BehaviourName,
  FromThread,
  Operation,
  Outcome,
  ReactorOptions,
  ToThread,
  WorkerStart,
} from './messages.ts';
import { beginOutside } from './outside.ts';

/** Far above what any test needs: a lost event ends in this time-out, never in a wrong result. */
const TIMEOUT_MS = 30_000;
const DAY_MS = 86_400_000;
/** The id of a message that must not be answered. */
const BEHIND_STOP = -1;

export interface Adapter {
  readonly name: string;
  /** The module whose createReactor() makes the reactor, inside its thread. */
  readonly module: URL;
  /** Called after each message, for a reactor that sleeps in the kernel, where a message alone does not wake it. */
  readonly wake?: (waking: unknown) => void;
}

export interface Listening {
  readonly handle: number;
  readonly port: number;
}

/** Runs `body` as a test of that adapter; threads created by `start` have ended when the test ends. */
export function contractTest(
  adapter: Adapter,
  name: string,
  body: (start: (options?: Partial<ReactorOptions>) => ReactorThread) => Promise<void>,
): void {
  test(`Reactor (${adapter.name}): ${name}`, { timeout: TIMEOUT_MS }, async t => {
    const closeOutside = beginOutside();
    t.signal.addEventListener('abort', closeOutside);
    await using threads = new AsyncDisposableStack();
    threads.defer(closeOutside);
    await body(options => threads.use(new ReactorThread(adapter, options ?? {}, t.signal)));
  });
}

export class ReactorThread implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #adapter: Adapter;
  readonly #exited: Promise<number>;
  readonly #answers = new Map<number, readonly Answer[]>();
  /** Handle → the events since it was opened. */
  readonly #events = new Map<number, number[]>();
  readonly #outcomes = new Map<number, Outcome>();
  readonly #strays: string[] = [];
  readonly #waiting = new Set<() => void>();
  readonly turns: { readonly at: number; readonly asked: number }[] = [];
  replaced: readonly number[] | undefined;
  #blocked = 0;
  #asked = 0;
  #started: { readonly waking: unknown } | undefined;
  #failure: Error | undefined;
  #over = false;

  constructor(adapter: Adapter, options: Partial<ReactorOptions>, signal: AbortSignal) {
    this.#adapter = adapter;
    const start: WorkerStart = {
      module: adapter.module.href,
      options: { capacity: 4096, share: false, ...options },
    };
    this.#worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: start });
    this.#worker.on('message', (message: FromThread) => this.#receive(message));
    this.#worker.on('error', error => {
      this.#failure = error as Error;
    });
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#exited = promise;
    this.#worker.on('exit', code => {
      this.#over = true;
      resolve(code);
      this.#notify();
    });
    signal.addEventListener('abort', () => void this.#worker.terminate());
  }

  /** Runs all operations in one call of the handler; the answers have the same order. */
  async ask(...operations: Operation[]): Promise<readonly Answer[]> {
    const id = ++this.#asked;
    this.#post({ id, operations });
    await this.until(() => this.#answers.has(id));
    return this.#answers.get(id) ?? [];
  }

  async listen(address: SocketAddress, serve?: BehaviourName): Promise<Listening> {
    const id = ++this.#asked;
    this.#post({ id, listen: address, serve });
    await this.until(() => this.#answers.has(id));
    const [handle, port] = this.#answers.get(id) ?? [];
    return { handle: handle.value, port: port.value };
  }

  /** The next connection, waiting for it; or an error code. */
  accept(listener: number): Promise<number> {
    return this.#tryUntilNotAgain(listener, { op: 'accept', handle: listener }).then(answer => answer.value);
  }

  async value(operation: Operation): Promise<number> {
    return (await this.ask(operation))[0].value;
  }

  async bytes(operation: Operation): Promise<{ value: number; bytes: Uint8Array }> {
    const [{ value, bytes }] = await this.ask(operation);
    return { value, bytes: bytes ?? new Uint8Array() };
  }

  /** The first read that does not return AGAIN. */
  async read(handle: number, space: number): Promise<{ value: number; bytes: Uint8Array }> {
    const { value, bytes } = await this.#tryUntilNotAgain(handle, { op: 'read', handle, space });
    return { value, bytes: bytes ?? new Uint8Array() };
  }

  /** Exactly `count` bytes, or fewer if the stream ends before. */
  async readExactly(handle: number, count: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for (let left = count; left > 0; ) {
      const { value, bytes } = await this.read(handle, left);
      if (value <= 0) break;
      parts.push(bytes);
      left -= value;
    }
    return Buffer.concat(parts);
  }

  async write(handle: number, bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      const answer = await this.#tryUntilNotAgain(handle, {
        op: 'write',
        handle,
        bytes: bytes.subarray(from),
      });
      assert.ok(answer.value > 0, `write() answered ${answer.value}`);
      from += answer.value;
    }
  }

  /** All events since the handle was opened, without those that contain any of `except`. */
  eventsOf(handle: number, except = 0): number {
    const reported = this.#events.get(handle) ?? [];
    return reported.reduce((all, events) => ((events & except) === 0 ? all | events : all), 0);
  }

  /** Number of events since the handle was opened. */
  eventCount(handle: number): number {
    return this.#events.get(handle)?.length ?? 0;
  }

  async event(handle: number, mask: number): Promise<void> {
    await this.until(() => (this.eventsOf(handle) & mask) !== 0);
  }

  async outcome(handle: number): Promise<Outcome> {
    await this.until(() => this.#outcomes.has(handle));
    const outcome = this.#outcomes.get(handle);
    assert.ok(outcome !== undefined);
    this.#outcomes.delete(handle);
    return outcome;
  }

  /** Holds the thread inside a handler while `act` runs, so that everything that happens meanwhile is found at once. */
  async whileBlocked(act: () => Promise<void>): Promise<void> {
    const gate = new Int32Array(new SharedArrayBuffer(4));
    const before = this.#blocked;
    const through = this.ask({ op: 'block', gate });
    await this.until(() => this.#blocked > before);
    try {
      await act();
    } finally {
      Atomics.store(gate, 0, 1);
      Atomics.notify(gate, 0);
    }
    await through;
  }

  /**
   * Stops the reactor and returns the thread's exit code, once it has ended on its own. A turn requested after the stop
   * must not keep it running, and a later message must not be served. `before` runs in the same call.
   */
  stop(...before: Operation[]): Promise<number> {
    if (!this.#over) {
      const late: Operation[] = [
        { op: 'wakeAt', after: DAY_MS },
        { op: 'soon', times: 1 },
      ];
      this.#post({ id: ++this.#asked, operations: [...before, { op: 'stop' }, ...late] });
      this.#post({ id: BEHIND_STOP, operations: [] });
    }
    return this.#exited;
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.#over) throw this.#failure ?? new Error('The thread has ended');
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      await promise;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const code = await this.stop();
    if (this.#failure !== undefined) throw this.#failure;
    assert.equal(code, 0);
    assert.ok(!this.#answers.has(BEHIND_STOP), 'a message was served after stop()');
    assert.deepEqual(this.#strays, [], 'events for closed handles');
  }

  /** AGAIN promises an event: retries only when one has come. */
  async #tryUntilNotAgain(handle: number, operation: Operation): Promise<Answer> {
    for (;;) {
      const [answer] = await this.ask(operation);
      if (answer.value !== AGAIN) return answer;
      const seen = this.eventCount(handle);
      await this.until(() => this.eventCount(handle) > seen);
    }
  }

  #post(message: ToThread): void {
    this.#worker.postMessage(message);
    this.#wake();
  }

  /** Before the reactor has started there is nothing to wake: it checks for messages on its own at first. */
  #wake(): void {
    if (this.#started !== undefined && !this.#over) this.#adapter.wake?.(this.#started.waking);
  }

  #receive(message: FromThread): void {
    switch (message.kind) {
      case 'started':
        this.#started = message;
        this.#wake();
        break;
      case 'answer':
        this.#answers.set(message.id, message.answers);
        break;
      case 'opened':
        this.#events.delete(message.handle);
        break;
      case 'event': {
        const reported = this.#events.get(message.handle) ?? [];
        reported.push(message.events);
        this.#events.set(message.handle, reported);
        break;
      }
      case 'done':
        this.#outcomes.set(message.handle, message.outcome);
        break;
      case 'turn':
        this.turns.push(message);
        break;
      case 'replaced':
        this.replaced = message.handles;
        break;
      case 'stray':
        this.#strays.push(`${message.events} for ${message.handle}`);
        break;
      case 'blocked':
        this.#blocked++;
        break;
      default:
    }
    this.#notify();
  }

  #notify(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}
