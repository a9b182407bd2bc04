// accept, in the HTTP part: what the front hands over, as HTTP/1 or HTTP/2 connections. Where the front lends the client's
// descriptor, the client is served directly, and the connection to the front is a leash: either side sees by it that the
// other has let go.

import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { formatIp, mapIp } from '../../wire/ip-address.ts';
import { guard } from '../guard.ts';
import type { HandOver } from '../shared/hand-over.ts';
import { type HandedOver, receiveHandOver } from '../shared/receive-hand-over.ts';
import { StallMeter } from '../stall-meter.ts';
import type { HttpConnection } from './exchange.ts';

/** Told once the header is there. */
export interface Accepted {
  /** Takes the descriptor that the front has lent, once. Undefined when the front has taken it back. */
  borrow(told: HandOver): number | undefined;
  /** The client's bytes are still to be read. */
  http(connection: HttpConnection): void;
  /** One that speaks HTTP/2, and what it has said so far. */
  h2(connection: HandedOver, first: Buffer): void;
  /** Our own code threw on behalf of that connection. */
  fault(connection: HttpConnection, error: unknown): void;
  /** The same before there was one. */
  handOverFault(error: unknown, told: HandOver | undefined): void;
}

export function acceptHandOver(front: Socket, accepted: Accepted): void {
  receiveHandOver(front, {
    received: (handed, rest, headerBytes) => {
      const { told } = handed;
      if (told.isH2) return accepted.h2(handed, rest);
      const isLent = told.lentBehind !== undefined;
      const socket = isLent ? openLent(accepted.borrow(told)) : front;
      if (socket === undefined) {
        front.destroy();
        return;
      }
      // node:http closes behind the last answer. With bytes unread that is a reset, which may overtake the answer: so it
      // is FIN alone, on which the front closes.
      socket.destroySoon = () => socket.end();
      socket.unshift(rest);
      const connection = newConnection(handed, socket, accepted);
      // Of what was read from the front all but its header is the client's; of what it read for us, nothing was counted.
      connection.countedIn = isLent ? -rest.length : headerBytes;
      if (isLent) tie(connection, front);
      accepted.http(connection);
      socket.resume();
    },
    fault: (error, told) => accepted.handOverFault(error, told),
  });
}

function newConnection(
  { socket: front, told, source, destination }: HandedOver,
  socket: Socket,
  accepted: Accepted,
): HttpConnection {
  // Copies: what was read first must not live as long as the connection.
  const address = Uint8Array.from(mapIp(source.address));
  const connection: HttpConnection = {
    onFault: error => accepted.fault(connection, error),
    socket,
    leash: socket === front ? undefined : front,
    told,
    address,
    addressText: formatIp(address, 0),
    port: source.port,
    destination: Uint8Array.from(destination.address),
    destinationPort: destination.port,
    current: undefined,
    last: undefined,
    waiting: [],
    unreadable: undefined,
    isLast: false,
    isClosing: false,
    countedIn: 0,
    countedOut: 0,
    moved: -1,
    movedAt: 0,
    meter: new StallMeter(),
  };
  return connection;
}

/** From here on Node closes it, also when this thread dies. */
function openLent(descriptor: number | undefined): Socket | undefined {
  if (descriptor === undefined) return undefined;
  try {
    return new Socket({ fd: descriptor, allowHalfOpen: true });
  } catch {
    // Nobody else will: the front sees the leash end.
    closeSync(descriptor);
    return undefined;
  }
}

/** The front lets go of the leash when the connection is over for it. */
function tie(connection: HttpConnection, leash: Socket): void {
  const { socket } = connection;
  socket.on(
    'error',
    guard(connection, () => socket.destroy()),
  );
  leash.once(
    'end',
    guard(connection, () => leash.destroy()),
  );
  leash.once(
    'close',
    guard(connection, () => socket.destroy()),
  );
  leash.resume();
}
