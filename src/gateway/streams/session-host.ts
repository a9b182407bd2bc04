// What a session of HTTP/2 or TLS needs of its thread.

import type { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import type { FaultOwner } from '../guard.ts';
import type { Stream } from '../io/net-reactor.ts';
import type { Settings } from '../stages/data-path.ts';

export interface OpenSession extends FaultOwner {
  /** The session ends, and closes its socket by itself. The first reason counts. */
  end(reason: CloseReason): void;
}

export interface SessionHost {
  readonly settings: Settings;
  /** That connection is a session from now on. */
  open(client: number, socket: Socket): OpenSession;
  /** A stream within that session is a connection of its own; `first` is what was read from it. */
  accept(client: number, stream: Stream, isTunnelled: boolean, first?: Uint8Array): void;
}
