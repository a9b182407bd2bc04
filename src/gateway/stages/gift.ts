// A connection on its way to another owner: see give.ts.

import type { Socket } from 'node:net';
import type { Rows } from '../shared/rows.ts';

/** What the next owner does with it: serve HTTP/2, end an agent's tunnel, or take it through an agent's uplink. */
export type Purpose = 'h2' | 'tunnel-end' | 'uplink';

export interface Gift {
  readonly purpose: Purpose;
  /** Its row in `arrivals`. */
  readonly at: number;
  readonly connection: number | Socket;
  /** What was read from it, behind headers that are meant for us. */
  readonly first: Uint8Array;
  readonly host: string | undefined;
}

/** The next owner. */
export interface Receiver {
  /** Rows of gifts under way, by handle. */
  readonly arrivals: Rows;
  /** By descriptor: not 0 while it is under way. */
  readonly owned: Uint8Array;
  take(gift: Gift): void;
}
