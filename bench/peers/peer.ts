// What is measured: a proxy that serves the routes on one port, or a direct connection.

import type { BackendKind, Routes } from '../routes.ts';

export interface PeerSetup {
  readonly routes: Routes;
  readonly workers: number;
  /** Its cores; the peer pins itself. */
  readonly cores: readonly number[];
  /** Number of connections that it must be able to hold. */
  readonly connections: number;
}

export interface RunningPeer extends AsyncDisposable {
  /** The port on 127.0.0.1 to dial for a backend. */
  port(to: BackendKind): number;
  /** Its processes. Empty without a proxy. */
  processes(): Promise<readonly number[]>;
  /** Its engine, if it has several. */
  readonly engine?: string;
  /** Adds a host that is routed to `answer`. Returns the time of the request (CLOCK_MONOTONIC, ns). */
  addHost?(host: string): Promise<bigint>;
  /** Seconds spent on table changes so far, as it reports. */
  applySeconds?(): Promise<number>;
}

export interface Peer {
  readonly id: string;
  /** For tables and the SVG. */
  readonly label: string;
  start(setup: PeerSetup): Promise<RunningPeer>;
}
