// What a behaviour of the contract suite can use inside the reactor's thread.

import type { Reactor, SocketAddress } from '../reactor.ts';
import type { BehaviourName, Outcome } from './messages.ts';

/** Calls at a time before others get their turn. */
export const BUDGET = 8;

export interface Behaviour {
  event(handle: number, events: number): void;
  /** Called after later(). */
  turn(): void;
  /** Bytes read or written so far. */
  progress(): number;
}

/** The operations available to a behaviour. */
export interface BehaviourHost {
  readonly io: Reactor;
  connect(address: SocketAddress, serve: BehaviourName | undefined): number;
  attach(handle: number, behaviour: Behaviour): void;
  close(handle: number): void;
  reset(handle: number): void;
  later(behaviour: Behaviour): void;
  done(handle: number, outcome: Outcome): void;
  replaced(handles: readonly number[]): void;
}
