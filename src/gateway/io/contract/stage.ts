// Where the behaviours of the contract suite play: inside the reactor's thread, with these means.

import type { Reactor, SocketAddress } from '../reactor.ts';
import type { BehaviourName, Outcome } from './messages.ts';

/** Calls in one go before others get their turn. */
export const BUDGET = 8;

export interface Behaviour {
  event(handle: number, events: number): void;
  /** After later(). */
  turn(): void;
  /** Bytes read or written so far. */
  progress(): number;
}

/** What a behaviour may do. */
export interface Stage {
  readonly io: Reactor;
  connect(address: SocketAddress, serve: BehaviourName | undefined): number;
  attach(handle: number, behaviour: Behaviour): void;
  close(handle: number): void;
  reset(handle: number): void;
  later(behaviour: Behaviour): void;
  done(handle: number, outcome: Outcome): void;
  replaced(handles: readonly number[]): void;
}
