// Who is measured: something that serves the routes on one port, or nobody in between.

import type { BackendKind, Routes } from '../routes.ts';

export interface PeerSetup {
  readonly routes: Routes;
  readonly workers: number;
  /** Where it runs; the peer sees to it. */
  readonly cores: readonly number[];
  /** Open connections it must be able to hold. */
  readonly connections: number;
}

export interface RunningPeer extends AsyncDisposable {
  /** On 127.0.0.1: where a client dials to reach a backend. */
  port(to: BackendKind): number;
  /** Itself and all it has started. Empty where there is nobody. */
  processes(): Promise<readonly number[]>;
  /** Which of its engines runs, where it has several. */
  readonly engine?: string;
  /** Has one more host lead to `answer`. Gives when that was asked for, by CLOCK_MONOTONIC in ns. */
  addHost?(host: string): Promise<bigint>;
  /** Seconds that table changes have taken so far by its own account. */
  applySeconds?(): Promise<number>;
}

export interface Peer {
  readonly id: string;
  /** For tables and pictures. */
  readonly label: string;
  start(setup: PeerSetup): Promise<RunningPeer>;
}
