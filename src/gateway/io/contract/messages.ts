// The messages between the contract suite and the thread of the reactor under test, and the bytes of bulk transfers.

import type { Reactor, SocketAddress } from '../reactor.ts';

/** The workerData of the thread. */
export interface WorkerStart {
  /** Exports `createReactor`, a CreateReactor. */
  readonly module: string;
  readonly options: ReactorOptions;
}

export interface ReactorOptions {
  readonly capacity: number;
  /** Whether other threads open the same listeners. */
  readonly share: boolean;
}

/** Creates the reactor under test, in its thread. `waking` goes to the adapter's wake() in the suite's thread. */
export type CreateReactor = (options: ReactorOptions) => {
  readonly reactor: Reactor;
  readonly waking?: unknown;
};

/** What a handle does on its own. Without a behaviour, its events are only reported. */
export type BehaviourName =
  | { readonly kind: 'echo' }
  /** Reads everything, cycling through these buffer sizes. */
  | { readonly kind: 'sink'; readonly spaces: readonly number[] }
  /** Writes `size` bytes of the pattern, in pieces. */
  | {
      readonly kind: 'source';
      readonly size: number;
      readonly piece: number;
      readonly last: 'shutdown' | 'close';
    }
  /** Connects and passes bytes and FIN on, both ways. */
  | { readonly kind: 'tunnel'; readonly to: SocketAddress }
  /**
   * The first event of any member closes the whole group and opens as many connections to `to`, which reuse the
   * numbers.
   */
  | { readonly kind: 'replace'; readonly group: readonly number[]; readonly to: SocketAddress }
  /** The first event of any member lends the whole group, and reports the descriptors as replacements. */
  | { readonly kind: 'lend'; readonly group: readonly number[] };

/** `last` is the handle that an earlier operation of the same request returned. */
export type HandleName = number | 'last';

/** The operations of a request run in one call of the handler, with no event in between. */
export type Operation =
  | { readonly op: 'connect'; readonly address: SocketAddress; readonly serve?: BehaviourName }
  | {
      readonly op:
        | 'accept'
        | 'quiesce'
        | 'descriptor'
        | 'failure'
        | 'lend'
        | 'discard'
        | 'peer'
        | 'local'
        | 'shutdown'
        | 'reset'
        | 'close'
        | 'progress';
      readonly handle: HandleName;
    }
  | { readonly op: 'read'; readonly handle: HandleName; readonly space: number }
  | { readonly op: 'write'; readonly handle: HandleName; readonly bytes: Uint8Array }
  | { readonly op: 'serve'; readonly handle: HandleName; readonly behaviour: BehaviourName }
  /** Opens a listener without waiting for it. */
  | { readonly op: 'open'; readonly address: SocketAddress }
  | { readonly op: 'keepalive' | 'stalled'; readonly ms: number }
  | { readonly op: 'keepAlive'; readonly handle: HandleName }
  | { readonly op: 'wakeAt'; readonly after: number }
  | { readonly op: 'soon'; readonly times: number }
  | { readonly op: 'now' | 'turns' | 'stop' }
  /** Sleeps in the handler until `gate` is set and notified. */
  | { readonly op: 'block'; readonly gate: Int32Array };

export type ToThread =
  | { readonly id: number; readonly operations: readonly Operation[] }
  | { readonly id: number; readonly listen: SocketAddress; readonly serve: BehaviourName | undefined };

export interface Answer {
  readonly value: number;
  readonly bytes?: Uint8Array;
}

/** How a sink, a source or a side of a tunnel ended. */
export interface Outcome {
  readonly count: number;
  readonly digest: string;
  /** 0 after FIN or when everything is written, otherwise an error code. */
  readonly end: number;
  /** How often the other side could not take all bytes. */
  readonly stalls: number;
}

export type FromThread =
  | { readonly kind: 'started'; readonly waking: unknown }
  | { readonly kind: 'answer'; readonly id: number; readonly answers: readonly Answer[] }
  /** From here on, events with that number belong to a new handle. */
  | { readonly kind: 'opened'; readonly handle: number }
  | { readonly kind: 'event'; readonly handle: number; readonly events: number }
  | { readonly kind: 'turn'; readonly at: number; readonly asked: number }
  | { readonly kind: 'done'; readonly handle: number; readonly outcome: Outcome }
  | { readonly kind: 'replaced'; readonly handles: readonly number[] }
  /** An event for a closed handle, which is never allowed. */
  | { readonly kind: 'stray'; readonly handle: number; readonly events: number }
  | { readonly kind: 'blocked' };

/** A prime, so that swapped pieces of the stream are never alike. */
const PERIOD = 262_139;

/** The bytes of every bulk transfer: `length` of them from position `at` of one endless stream. */
export function pattern(at: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    const from = (at + done) % PERIOD;
    const part = period.subarray(from, Math.min(PERIOD, from + length - done));
    bytes.set(part, done);
    done += part.length;
  }
  return bytes;
}

const period = makePeriod();

function makePeriod(): Uint8Array {
  const bytes = new Uint8Array(PERIOD);
  let state = 0x9e3779b9;
  for (let i = 0; i < PERIOD; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
