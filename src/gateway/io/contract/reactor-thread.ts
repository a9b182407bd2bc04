// The suite's side of a thread with a reactor under test: asks for calls and records reports. Disposing of it stops the
// reactor, waits for the thread to end on its own, and fails if a handler was called that must not be.

import assert from 'node:assert/strict';
import { closeSync, writeSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { ThreadControl } from '../../shared/thread-control.ts';
import type { EngineName } from '../open-reactor.ts';
import { AGAIN, type SocketAddress } from '../reactor.ts';
import { type Call, type Callable, openGate, type Report, type Request, type ThreadStart } from './worker.ts';

const DAY_MS = 86_400_000;
/** The id of a message that must not be answered. */
const BEHIND_STOP = -1;
const wakeUp = new Uint8Array([1, 0, 0, 0, 0, 0, 0, 0]);

export type ThreadOptions = Partial<Pick<ThreadStart, 'capacity' | 'share'>>;

export interface Listener {
  readonly handle: number;
  readonly port: number;
}

export class ReactorThread implements AsyncDisposable {
  readonly #control: ThreadControl;
  readonly #worker: Worker;
  readonly #exited: Promise<number>;
  readonly #answers = new Map<number, readonly unknown[]>();
  /** Handle → the events since it was opened. */
  readonly #events = new Map<number, number[]>();
  readonly #strays: string[] = [];
  /** The reactor's time at each turn. */
  readonly turns: number[] = [];
  #change = Promise.withResolvers<void>();
  #asked = 0;
  #failure: Error | undefined;
  #over = false;

  constructor(engine: EngineName, { capacity = 4096, share = false }: ThreadOptions, signal: AbortSignal) {
    const memory = ThreadControl.memory(capacity);
    this.#control = new ThreadControl(memory);
    const workerData: ThreadStart = { engine, capacity, share, memory };
    this.#worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData });
    this.#worker.on('message', (report: Report) => this.#receive(report));
    this.#worker.on('error', error => {
      this.#failure = error as Error;
    });
    this.#exited = new Promise(resolve => {
      this.#worker.on('exit', code => {
        this.#over = true;
        for (const descriptor of this.#control.descriptors) closeSync(descriptor);
        this.#change.resolve();
        resolve(code);
      });
    });
    signal.addEventListener('abort', () => {
      // terminate() does not reach a thread that sleeps in the kernel.
      this.#control.stop();
      this.#wake();
      void this.#worker.terminate();
    });
  }

  async call<Name extends keyof Callable>(
    name: Name,
    ...args: Parameters<Callable[Name]>
  ): Promise<ReturnType<Callable[Name]>> {
    const [result] = await this.calls([name, ...args] as unknown as Call);
    return result as ReturnType<Callable[Name]>;
  }

  /** In one go, without an event in between; the results have the same order. */
  calls(...calls: Call[]): Promise<readonly unknown[]> {
    return this.#ask({ id: ++this.#asked, calls });
  }

  /** Makes the calls in the handler of the next event that one of the handles has; `answer` waits for that. */
  async inEventOf(
    handles: readonly number[],
    ...calls: Call[]
  ): Promise<{ answer: Promise<readonly unknown[]> }> {
    const answer = this.#ask({ id: ++this.#asked, calls, inEventOf: handles });
    await this.calls();
    return { answer };
  }

  async listen(address: SocketAddress): Promise<Listener> {
    const id = ++this.#asked;
    await this.call('listen', address, id);
    const [handle, port] = (await this.#answer(id)) as number[];
    return { handle, port };
  }

  /** Repeats an attempt that returned AGAIN, whenever an event has come since. */
  async untilNotAgain(handle: number, attempt: () => Promise<number>): Promise<number> {
    for (;;) {
      const result = await attempt();
      if (result !== AGAIN) return result;
      await this.eventAfter(handle, this.events(handle).length);
    }
  }

  /** The events since the handle was opened. */
  events(handle: number): readonly number[] {
    return this.#events.get(handle) ?? [];
  }

  /** Whether an event beyond the first `count` had one of `mask`. */
  had(handle: number, mask: number, count = 0): boolean {
    return this.events(handle).some((events, i) => i >= count && (events & mask) !== 0);
  }

  /** Waits for such an event. */
  async eventAfter(handle: number, count: number, mask = -1): Promise<void> {
    await this.until(() => this.had(handle, mask, count));
  }

  /**
   * Holds the thread inside a handler while `act` runs, so that everything that happens meanwhile is found at once.
   * `before` runs in the same handler.
   */
  async whileBlocked(act: () => Promise<void>, ...before: Call[]): Promise<void> {
    const gates = new Int32Array(new SharedArrayBuffer(8));
    const through = this.calls(...before, ['block', gates]);
    await Atomics.waitAsync(gates, 0, 0).value;
    try {
      await act();
    } finally {
      openGate(gates, 1);
    }
    await through;
  }

  /**
   * Stops the reactor and returns the thread's exit code, once it has ended on its own. Turns requested after stop()
   * must not keep it running, and a later message must not be served. `before` runs in the same go.
   */
  stop(...before: Call[]): Promise<number> {
    if (!this.#over) {
      this.#post({ id: ++this.#asked, calls: [...before, ['stop'], ['wakeIn', DAY_MS], ['soon']] });
      this.#post({ id: BEHIND_STOP, calls: [] });
    }
    return this.#exited;
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.#over) throw this.#failure ?? new Error('The thread has ended');
      await this.#change.promise;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const code = await this.stop();
    if (this.#failure !== undefined) throw this.#failure;
    assert.equal(code, 0);
    assert.ok(!this.#answers.has(BEHIND_STOP), 'a message was served after stop()');
    assert.deepEqual(this.#strays, [], 'events for closed handles');
  }

  #ask(request: Request): Promise<readonly unknown[]> {
    this.#post(request);
    return this.#answer(request.id);
  }

  async #answer(id: number): Promise<readonly unknown[]> {
    await this.until(() => this.#answers.has(id));
    return this.#answers.get(id) ?? [];
  }

  #post(request: Request): void {
    this.#worker.postMessage(request);
    this.#wake();
  }

  /** A message does not wake a reactor that sleeps in the kernel. Before it first sleeps, it checks for messages. */
  #wake(): void {
    const { wakeFd } = this.#control;
    if (wakeFd !== undefined && !this.#over) writeSync(wakeFd, wakeUp);
  }

  #receive(report: Report): void {
    if (report.kind === 'answer') this.#answers.set(report.id, report.results);
    else if (report.kind === 'opened') this.#events.set(report.handle, []);
    else if (report.kind === 'turn') this.turns.push(report.at);
    else if (report.isOpen) this.#events.get(report.handle)?.push(report.events);
    else this.#strays.push(`${report.events} for ${report.handle}`);
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }
}
