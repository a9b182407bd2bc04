// The thread of the reactor under test: executes the suite's requests and reports. An adapter's run() may block the
// thread, so nothing here waits for a promise, a timer or a microtask once it runs.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { Reactor, ReactorHandlers, SocketAddress } from '../reactor.ts';
import type { Behaviour, BehaviourHost } from './behaviour-host.ts';
import { behave } from './behaviours.ts';
import type {
  Answer,
  BehaviourName,
  CreateReactor,
  FromThread,
  Operation,
  Outcome,
  ToThread,
  WorkerStart,
} from './messages.ts';

/** The caller may reuse a buffer after write(): it is overwritten with this. */
const SCRIBBLE = 0xee;

class Script implements ReactorHandlers, BehaviourHost {
  readonly io: Reactor;
  readonly #control: MessagePort;
  readonly #open = new Set<number>();
  readonly #behaviours = new Map<number, Behaviour>();
  /** The behaviour of a listener's accepted connections. */
  readonly #serve = new Map<number, BehaviourName>();
  #later = new Set<Behaviour>();
  #last = -1;
  #turns = 0;
  #askedFor = 0;
  #soonLeft = 0;
  #reportsTurns = false;

  constructor(io: Reactor, control: MessagePort) {
    this.io = io;
    this.#control = control;
  }

  event(handle: number, events: number): void {
    if (!this.#open.has(handle)) return this.#post({ kind: 'stray', handle, events });
    const behaviour = this.#behaviours.get(handle);
    if (behaviour !== undefined) behaviour.event(handle, events);
    else if (this.#serve.has(handle)) this.#acceptAll(handle);
    else this.#post({ kind: 'event', handle, events });
  }

  turn(): void {
    this.#turns++;
    const later = this.#later;
    this.#later = new Set();
    for (const behaviour of later) behaviour.turn();
    if (this.#soonLeft > 0 && --this.#soonLeft > 0) this.io.soon();
    if (this.#reportsTurns) this.#post({ kind: 'turn', at: this.io.now(), asked: this.#askedFor });
  }

  message(message: unknown): void {
    const request = message as ToThread;
    if ('listen' in request) return this.#listen(request.id, request.listen, request.serve);
    const answers = request.operations.map(operation => this.#do(operation));
    this.#post({ kind: 'answer', id: request.id, answers });
  }

  opened(handle: number, serve: BehaviourName | undefined): void {
    this.#open.add(handle);
    this.#last = handle;
    this.#post({ kind: 'opened', handle });
    if (serve !== undefined) this.#behave(handle, serve);
  }

  connect(address: SocketAddress, serve: BehaviourName | undefined): number {
    const handle = this.io.connect(address);
    if (handle >= 0) this.opened(handle, serve);
    return handle;
  }

  attach(handle: number, behaviour: Behaviour): void {
    this.#behaviours.set(handle, behaviour);
  }

  close(handle: number): void {
    this.#forget(handle);
    this.io.close(handle);
  }

  reset(handle: number): void {
    this.#forget(handle);
    this.io.reset(handle);
  }

  later(behaviour: Behaviour): void {
    this.#later.add(behaviour);
    this.io.soon();
  }

  done(handle: number, outcome: Outcome): void {
    this.#post({ kind: 'done', handle, outcome });
  }

  replaced(handles: readonly number[]): void {
    this.#post({ kind: 'replaced', handles });
  }

  #listen(id: number, address: SocketAddress, serve: BehaviourName | undefined): void {
    this.io.listen(address, result => {
      const port = result < 0 ? 0 : this.io.listeningPort(result);
      if (result >= 0) {
        this.opened(result, undefined);
        if (serve !== undefined) this.#serve.set(result, serve);
      }
      this.#post({ kind: 'answer', id, answers: [{ value: result }, { value: port }] });
      if (serve !== undefined && result >= 0) this.#acceptAll(result);
    });
  }

  #acceptAll(listener: number): void {
    for (;;) {
      const handle = this.io.accept(listener);
      if (handle < 0) return;
      this.opened(handle, this.#serve.get(listener));
    }
  }

  #do(operation: Operation): Answer {
    switch (operation.op) {
      case 'connect':
        return { value: this.connect(operation.address, operation.serve) };
      case 'read': {
        const into = new Uint8Array(operation.space + 2);
        const value = this.io.read(this.#named(operation.handle), into, 1, 1 + operation.space);
        if (into[0] !== 0 || into[1 + operation.space] !== 0)
          throw new Error('read() wrote outside of its space');
        return { value, bytes: into.slice(1, 1 + Math.max(value, 0)) };
      }
      case 'write': {
        const { bytes } = operation;
        const value = this.io.write(this.#named(operation.handle), bytes, 0, bytes.length);
        bytes.fill(SCRIBBLE);
        return { value };
      }
      case 'serve':
        this.#behave(this.#named(operation.handle), operation.behaviour);
        return { value: 0 };
      case 'open':
        this.io.listen(operation.address, result => {
          if (result >= 0) this.opened(result, undefined);
        });
        return { value: 0 };
      case 'keepalive':
        this.io.keepalive(operation.ms);
        return { value: 0 };
      case 'stalled':
        this.io.stalled(operation.ms);
        return { value: 0 };
      case 'keepAlive':
        this.io.keepAlive(this.#named(operation.handle));
        return { value: 0 };
      case 'wakeAt':
        this.#reportsTurns = true;
        this.#askedFor = this.io.now() + operation.after;
        this.io.wakeAt(this.#askedFor);
        return { value: this.#askedFor };
      case 'soon':
        // A flood of turns is not reported one by one: it would drown the suite's thread.
        this.#reportsTurns = operation.times === 1;
        this.#soonLeft = operation.times;
        this.io.soon();
        return { value: 0 };
      case 'now':
        return { value: this.io.now() };
      case 'turns':
        return { value: this.#turns };
      case 'stop':
        this.#open.clear();
        this.io.stop();
        return { value: 0 };
      case 'block':
        this.#post({ kind: 'blocked' });
        Atomics.wait(operation.gate, 0, 0);
        return { value: 0 };
      default:
        return this.#doWithHandle(operation.op, this.#named(operation.handle));
    }
  }

  #doWithHandle(op: string, handle: number): Answer {
    const bytes = new Uint8Array(16);
    switch (op) {
      case 'accept': {
        const value = this.io.accept(handle);
        if (value >= 0) this.opened(value, undefined);
        return { value };
      }
      case 'descriptor':
        return { value: this.io.descriptor(handle) };
      case 'failure':
        return { value: this.io.failure(handle) };
      case 'peer':
        return { value: this.io.peerAddress(handle, bytes, 0), bytes };
      case 'local':
        return { value: this.io.localAddress(handle, bytes, 0), bytes };
      case 'progress':
        return { value: this.#behaviours.get(handle)?.progress() ?? 0 };
      case 'quiesce':
        this.io.quiesce(handle);
        return { value: 0 };
      case 'lend':
        return { value: this.io.lend(handle) };
      case 'discard':
        this.io.discard(handle);
        return { value: 0 };
      case 'shutdown':
        this.io.shutdown(handle);
        return { value: 0 };
      case 'reset':
        this.reset(handle);
        return { value: 0 };
      case 'close':
        this.close(handle);
        return { value: 0 };
      default:
        throw new Error(`No such operation: ${op}`);
    }
  }

  #named(handle: number | 'last'): number {
    return handle === 'last' ? this.#last : handle;
  }

  #behave(handle: number, name: BehaviourName): void {
    behave(this, handle, name);
  }

  #forget(handle: number): void {
    this.#open.delete(handle);
    this.#behaviours.delete(handle);
    this.#serve.delete(handle);
  }

  #post(message: FromThread): void {
    this.#control.postMessage(message);
  }
}

if (parentPort !== null) {
  const { module, options } = workerData as WorkerStart;
  const { createReactor } = (await import(module)) as { readonly createReactor: CreateReactor };
  const { reactor, waking } = createReactor(options);
  parentPort.postMessage({ kind: 'started', waking } satisfies FromThread);
  reactor.run(new Script(reactor, parentPort), parentPort);
}
