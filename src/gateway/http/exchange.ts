// One request in progress, from its head to the end of its answer: it has a row of its own in shared memory (client,
// route, backend and the places it counts for), and what node:http has for it.

import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import type { FaultOwner } from '../guard.ts';
import type { HandOff } from '../shared/hand-off.ts';
import type { Verdict } from '../shared/verdicts.ts';
import type { StallMeter } from '../stall-meter.ts';
import type { TableRoute } from '../table/table.ts';
import type { JudgedRequest } from './judge-request.ts';
import type { KeptConnection } from './kept-connections.ts';

/** A connection that the front has handed over. It serves one request after the other. */
export interface HttpConnection extends FaultOwner {
  readonly socket: Socket;
  /** Where `socket` is the client's own: what the front handed it over on, open for as long as both have it. */
  readonly link: Socket | undefined;
  readonly handOff: HandOff;
  /** The true client: 16 bytes, and a port. */
  readonly address: Uint8Array;
  readonly addressText: string;
  readonly port: number;
  readonly destination: Uint8Array;
  readonly destinationPort: number;
  /** The one in progress, and those that a client sent ahead. */
  current: Exchange | undefined;
  readonly waiting: Incoming[];
  /** What it sent behind these cannot be read, and why: said once they are answered. */
  unreadable: CloseReason | undefined;
  /** What the front was told last. */
  last: Verdict | undefined;
  /** The last request is there: none behind it is served. */
  isLast: boolean;
  /** Refused or cut: what the client still sends is not looked at. */
  isClosing: boolean;
  /** Bytes that were counted for a route already. */
  countedIn: number;
  countedOut: number;
  /** How many bytes and ends had passed when it was last looked at, and since when no more have. */
  moved: number;
  movedAt: number;
  /** Whether what is in progress stands still. */
  readonly meter: StallMeter;
}

/** As node:http gives it. */
export interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Of a request to switch protocols: what the client sent behind it. */
  readonly upgradeHead: Buffer | undefined;
}

export interface Exchange extends Incoming {
  readonly connection: HttpConnection;
  readonly startedAt: number;
  /** Its row, or -1 before it has a route. */
  row: number;
  route: TableRoute | undefined;
  judged: JudgedRequest | undefined;
  /** Backends in the order to try them. */
  order: readonly number[];
  attempt: number;
  dialAt: number;
  dialMs: number;
  /** Whom it was passed on to: by node:http, or over a kept connection. */
  upstream: ClientRequest | undefined;
  kept: KeptConnection | undefined;
  /** The backend's side of an upgraded connection. */
  spliced: Socket | undefined;
  /** 0 until it is answered. */
  status: number;
  isOver: boolean;
}
