// accept, in an HTTP thread: turns a worker's hand-off into an HTTP/1 or HTTP/2 connection. If the worker lends the
// client's descriptor, the client is served directly, and the unix socket to the worker becomes the link: when either
// side closes it, the other ends the connection too.

import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { formatIp, mapIp } from '../../wire/ip-address.ts';
import { guard } from '../guard.ts';
import type { HandOff } from '../shared/hand-off.ts';
import { type HandedOff, receiveHandOff } from '../shared/receive-hand-off.ts';
import type { ThreadControl } from '../shared/thread-control.ts';
import { StallMeter } from '../stall-meter.ts';
import type { HttpConnection } from './exchange.ts';

/** Called once the hand-off header has arrived. */
export interface Accepted {
  /** Of this thread. */
  readonly control: ThreadControl;
  /** Takes the lent descriptor, once. Undefined when the worker has taken it back. */
  borrow(handOff: HandOff): number | undefined;
  /** An HTTP/1 connection; nothing has been read from it yet. */
  http(connection: HttpConnection): void;
  /** An HTTP/2 connection, and the bytes that the client has sent so far. */
  h2(connection: HandedOff, first: Buffer): void;
  /** Our own code threw on behalf of that connection. */
  fault(connection: HttpConnection, error: unknown): void;
  /** Our own code threw before there was a connection. */
  handOffFault(error: unknown, handOff: HandOff | undefined): void;
}

export function acceptHandOff(server: Socket, accepted: Accepted): void {
  receiveHandOff(server, {
    received: (handed, rest, headerBytes) => {
      const { handOff } = handed;
      if (handOff.isH2) return accepted.h2(handed, rest);
      const isLent = handOff.lentBehind !== undefined;
      const socket = isLent ? openLent(handOff, accepted) : server;
      if (socket === undefined) {
        server.destroy();
        return;
      }
      // node:http closes after the last response. Closing with bytes unread sends a reset, which may overtake the
      // response: so we send FIN only, and the worker closes.
      socket.destroySoon = () => socket.end();
      socket.unshift(rest);
      const connection = newConnection(handed, socket, accepted);
      // On the unix socket, all bytes but the header are the client's. On a lent descriptor, `bytesRead` lacks the
      // bytes that the worker had read before.
      connection.countedIn = isLent ? -rest.length : headerBytes;
      if (isLent) watchLink(connection, server);
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
  // Copies, so that the connection does not keep the first read buffer alive.
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

/** Undefined if the worker has taken the descriptor back, it cannot be opened, or this thread is being ended. */
function openLent(handOff: HandOff, { control, borrow }: Accepted): Socket | undefined {
  // Until Node has the descriptor, and closes it even when this thread dies, nobody else would.
  if (!control.enter()) return undefined;
  const descriptor = borrow(handOff);
  try {
    return descriptor === undefined ? undefined : new Socket({ fd: descriptor, allowHalfOpen: true });
  } catch {
    // The worker sees the link close.
    closeSync(descriptor as number);
    return undefined;
  } finally {
    control.leave();
  }
}

/** The worker closes the link when it ends the connection. */
function watchLink(connection: HttpConnection, link: Socket): void {
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
