// One request in progress, from its head to the end of its response. It has a row of its own in shared memory (client,
// route, backend, and the limits that it counts against), and the node:http objects that serve it.

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

/** A connection that a worker has handed off. It serves one request after another. */
export interface HttpConnection extends FaultOwner {
  readonly socket: Socket;
  /** The unix socket to the worker, if `socket` is the client's own: open while both sides have the connection. */
  readonly link: Socket | undefined;
  readonly handOff: HandOff;
  /** The true client: 16 bytes, and a port. */
  readonly address: Uint8Array;
  readonly addressText: string;
  readonly port: number;
  readonly destination: Uint8Array;
  readonly destinationPort: number;
  /** The request in progress, and those that the client pipelined behind it. */
  current: Exchange | undefined;
  readonly waiting: Incoming[];
  /** Why the bytes behind these requests cannot be parsed; refused once the requests are answered. */
  unreadable: CloseReason | undefined;
  /** The last verdict that was reported to the worker. */
  last: Verdict | undefined;
  /** The last request has arrived: nothing behind it is served. */
  isLast: boolean;
  /** Refused or cut: further bytes from the client are ignored. */
  isClosing: boolean;
  /** Bytes already counted for a route. */
  countedIn: number;
  countedOut: number;
  /** How many bytes and FINs had passed at the last check, and since when no more have. */
  moved: number;
  movedAt: number;
  readonly meter: StallMeter;
}

/** A request as node:http delivers it. */
export interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** For an upgrade request: the bytes that the client sent behind it. */
  readonly upgradeHead: Buffer | undefined;
}

export interface Exchange extends Incoming {
  readonly connection: HttpConnection;
  readonly startedAt: number;
  /** -1 before the request has a route, and after its end. */
  row: number;
  route: TableRoute | undefined;
  judged: JudgedRequest | undefined;
  /** Indices of the route's backends, in the order to try them. */
  order: readonly number[];
  attempt: number;
  dialAt: number;
  dialMs: number;
  /** The request to the backend: by node:http, or on a kept connection. */
  upstream: ClientRequest | undefined;
  kept: KeptConnection | undefined;
  /** The backend's side of an upgraded connection. */
  spliced: Socket | undefined;
  /** 0 until there is a response. */
  status: number;
  isOver: boolean;
}

export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
