// The thread of the reactor under test: makes the calls that the suite asks for, and reports every event. An adapter's
// run() may block the thread, so nothing here waits for a promise, a timer or a microtask once it runs.

import { arch } from 'node:os';
import { isMainThread, type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { formatIpPort } from '../../../wire/ip-address.ts';
import { ThreadControl } from '../../shared/thread-control.ts';
import { type EngineName, openReactor } from '../open-reactor.ts';
import type { Reactor, ReactorHandlers, SocketAddress } from '../reactor.ts';
import { Flow } from './flow.ts';

/** As an argument of a call: the handle that was opened last. */
export const LAST = -100;
/** The caller may reuse a buffer after write(): it is overwritten with this. */
const SCRIBBLE = 0xee;
/** While every turn requests the next, one of so many is reported: all of them would drown the suite's thread. */
const SPINS = 1000;

export interface ThreadStart {
  readonly engine: EngineName;
  readonly capacity: number;
  readonly share: boolean;
  /** Of the ThreadControl. */
  readonly memory: SharedArrayBuffer;
}

/** The methods of the reactor, or of `Script.calls` instead. */
export type Callable = Omit<Reactor, keyof Script['calls'] | 'capacity' | 'readSize' | 'run'> &
  Script['calls'];
export type Call = { [Name in keyof Callable]: [Name, ...Parameters<Callable[Name]>] }[keyof Callable];

/** The calls run in one go, without an event in between: at once, or inside the next event of one of these handles. */
export interface Request {
  readonly id: number;
  readonly calls: readonly Call[];
  readonly inEventOf?: readonly number[];
}

export type Report =
  | { readonly kind: 'answer'; readonly id: number; readonly results: readonly unknown[] }
  /** From here on, events with that number belong to a new handle. */
  | { readonly kind: 'opened'; readonly handle: number }
  | { readonly kind: 'event'; readonly handle: number; readonly events: number; readonly isOpen: boolean }
  | { readonly kind: 'turn'; readonly at: number };

class Script implements ReactorHandlers {
  readonly #io: Reactor;
  readonly #control: MessagePort;
  readonly #open = new Set<number>();
  readonly #flows = new Set<Flow>();
  #trap: Request | undefined;
  #last = -1;
  #turns = 0;
  #isSpinning = false;

  constructor(io: Reactor, control: MessagePort) {
    this.#io = io;
    this.#control = control;
  }

  /** Calls that the reactor lacks, that open or close handles, or whose arguments do not fit into a message. */
  readonly calls = {
    /** Its own answer follows once it has a result: the handle and the port. */
    listen: (address: SocketAddress, id: number): void =>
      this.#io.listen(address, result => {
        const handle = this.#opened(result);
        const results = [handle, handle < 0 ? 0 : this.#io.listeningPort(handle)];
        this.#post({ kind: 'answer', id, results });
      }),
    accept: (listener: number): number => this.#opened(this.#io.accept(listener)),
    connect: (address: SocketAddress): number => this.#opened(this.#io.connect(address)),
    read: (handle: number, space: number): { count: number; bytes: Uint8Array } => {
      const into = new Uint8Array(space + 2);
      const count = this.#io.read(handle, into, 1, 1 + space);
      if (into[0] !== 0 || into[1 + space] !== 0) throw new Error('read() wrote outside of its space');
      return { count, bytes: into.slice(1, 1 + Math.max(count, 0)) };
    },
    write: (handle: number, bytes: Uint8Array): number => {
      const padded = new Uint8Array(bytes.length + 2);
      padded.set(bytes, 1);
      const count = this.#io.write(handle, padded, 1, 1 + bytes.length);
      padded.fill(SCRIBBLE);
      return count;
    },
    peerAddress: (handle: number): string => {
      const bytes = new Uint8Array(18);
      return formatIpPort(bytes, 1, this.#io.peerAddress(handle, bytes, 1));
    },
    localAddress: (handle: number): string => {
      const bytes = new Uint8Array(18);
      return formatIpPort(bytes, 1, this.#io.localAddress(handle, bytes, 1));
    },
    close: (handle: number): void => this.#ends(handle).close(handle),
    reset: (handle: number): void => this.#ends(handle).reset(handle),
    stop: (): void => {
      this.#open.clear();
      this.#io.stop();
    },
    /** wakeAt() that many milliseconds from now; returns the time. */
    wakeIn: (ms: number): number => {
      const time = this.#io.now() + ms;
      this.#io.wakeAt(time);
      return time;
    },
    /** Requests a turn in every turn. */
    spin: (): void => {
      this.#isSpinning = true;
      this.#io.soon();
    },
    /** Opens the first gate, and sleeps in the handler until the second is open. */
    block: (gates: Int32Array): void => {
      openGate(gates, 0);
      Atomics.wait(gates, 1, 0);
    },
    flow: (from: number, to: number, spaces?: readonly number[]): void => {
      const flow = new Flow(this.#io, from, to, spaces);
      this.#flows.add(flow);
      this.#move(flow);
    },
  };

  event(handle: number, events: number): void {
    this.#post({ kind: 'event', handle, events, isOpen: this.#open.has(handle) });
    const trap = this.#trap;
    if (trap?.inEventOf?.includes(handle)) {
      this.#trap = undefined;
      return this.#answer(trap);
    }
    for (const flow of this.#flows) {
      flow.event(handle, events);
      this.#move(flow);
    }
  }

  turn(): void {
    if (this.#isSpinning) this.#io.soon();
    if (!this.#isSpinning || ++this.#turns % SPINS === 0) this.#post({ kind: 'turn', at: this.#io.now() });
    for (const flow of this.#flows) this.#move(flow);
  }

  message(message: unknown): void {
    const request = message as Request;
    if (request.inEventOf === undefined) this.#answer(request);
    else this.#trap = request;
  }

  #answer({ id, calls }: Request): void {
    this.#post({ kind: 'answer', id, results: calls.map(call => this.#make(call)) });
  }

  #make([name, ...args]: Call): unknown {
    const owner: object = name in this.calls ? this.calls : this.#io;
    const values = args.map(each => (each === LAST ? this.#last : each));
    return Reflect.apply(Reflect.get(owner, name), owner, values);
  }

  #move(flow: Flow): void {
    if (flow.move()) this.#io.soon();
  }

  #opened(handle: number): number {
    if (handle < 0) return handle;
    this.#open.add(handle);
    this.#last = handle;
    this.#post({ kind: 'opened', handle });
    return handle;
  }

  #ends(handle: number): Reactor {
    this.#open.delete(handle);
    for (const flow of this.#flows) if (flow.from === handle || flow.to === handle) this.#flows.delete(flow);
    return this.#io;
  }

  #post(report: Report): void {
    this.#control.postMessage(report);
  }
}

export function openGate(gates: Int32Array, which: number): void {
  Atomics.store(gates, which, 1);
  Atomics.notify(gates, which);
}

if (!isMainThread && parentPort !== null) {
  const { engine, memory, ...options } = workerData as ThreadStart;
  const io = await openReactor(engine, { ...options, arch: arch(), control: new ThreadControl(memory) });
  io.run(new Script(io, parentPort), parentPort);
}
