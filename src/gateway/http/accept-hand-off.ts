// accept, in the HTTP part: what the front hands over, as HTTP/1 or HTTP/2 connections. Where the front lends the client's
// descriptor, the client is served directly, and the connection to the front is a leash: either side sees by it that the
// other has let go.

import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { formatIp, mapIp } from '../../wire/ip-address.ts';
import { guard } from '../guard.ts';
import type { HandOff } from '../shared/hand-off.ts';
import { type HandedOff, receiveHandOff } from '../shared/receive-hand-off.ts';
import { StallMeter } from '../stall-meter.ts';
import type { HttpConnection } from './exchange.ts';

/** Told once the header is there. */
export interface Accepted {
  /** Takes the descriptor that the front has lent, once. Undefined when the front has taken it back. */
  borrow(handOff: HandOff): number | undefined;
  /** The client's bytes are still to be read. */
  http(connection: HttpConnection): void;
  /** One that speaks HTTP/2, and what it has said so far. */
  h2(connection: HandedOff, first: Buffer): void;
  /** Our own code threw on behalf of that connection. */
  fault(connection: HttpConnection, error: unknown): void;
  /** The same before there was one. */
  handOffFault(error: unknown, handOff: HandOff | undefined): void;
}

export function acceptHandOff(server: Socket, accepted: Accepted): void {
  receiveHandOff(server, {
    received: (handed, rest, headerBytes) => {
      const { handOff } = handed;
      if (handOff.isH2) return accepted.h2(handed, rest);
      const isLent = handOff.lentBehind !== undefined;
      const socket = isLent ? openLent(accepted.borrow(handOff)) : server;
      if (socket === undefined) {
        server.destroy();
        return;
      }
      // node:http closes behind the last answer. With bytes unread that is a reset, which may overtake the answer: so it
      // is FIN alone, on which the front closes.
      socket.destroySoon = () => socket.end();
      socket.unshift(rest);
      const connection = newConnection(handed, socket, accepted);
      // Of what was read from the front all but its header is the client's; of what it read for us, nothing was counted.
      connection.countedIn = isLent ? -rest.length : headerBytes;
      if (isLent) tie(connection, server);
      accepted.http(connection);
      socket.resume();
    },
    fault: (error, handOff) => accepted.handOffFault(error, handOff),
  });
}

function newConnection(
  { socket: server, handOff, source, destination }: HandedOff,
  socket: Socket,
  accepted: Accepted,
): HttpConnection {
  // Copies: what was read first must not live as long as the connection.
  const address = Uint8Array.from(mapIp(source.address));
  const connection: HttpConnection = {
    onFault: error => accepted.fault(connection, error),
    socket,
    link: socket === server ? undefined : server,
    handOff,
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
function tie(connection: HttpConnection, link: Socket): void {
  const { socket } = connection;
  socket.on(
    'error',
    guard(connection, () => socket.destroy()),
  );
  link.once(
    'end',
    guard(connection, () => link.destroy()),
  );
  link.once(
    'close',
    guard(connection, () => socket.destroy()),
  );
  link.resume();
}
