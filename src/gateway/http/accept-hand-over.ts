// accept, in the HTTP part: what the front hands over, as HTTP/1 or HTTP/2 connections.

import type { Socket } from 'node:net';
import { formatIp, mapIp } from '../../wire/ip-address.ts';
import { startRequestStream } from '../../wire/request-stream.ts';
import { type HandedOver, receiveHandOver } from '../receive-hand-over.ts';
import type { HttpConnection } from './exchange.ts';

/** Told once the header is there. */
export interface Accepted {
  /** The client's bytes are still to be read. */
  http(connection: HttpConnection): void;
  /** One that speaks HTTP/2, and what it has said so far. */
  h2(connection: HandedOver, first: Buffer): void;
}

export function acceptHandOver(socket: Socket, accepted: Accepted): void {
  receiveHandOver(socket, (handed, rest, headerBytes) => {
    const { told, source, destination } = handed;
    if (told.isH2) return accepted.h2(handed, rest);
    // node:http closes behind the last answer. With bytes unread that is a reset, which may overtake the answer: so it
    // is FIN alone, on which the front closes.
    socket.destroySoon = () => socket.end();
    socket.unshift(rest);
    // Copies: what was read first must not live as long as the connection.
    const address = Uint8Array.from(mapIp(source.address));
    accepted.http({
      socket,
      told,
      address,
      addressText: formatIp(address, 0),
      port: source.port,
      destination: Uint8Array.from(destination.address),
      destinationPort: destination.port,
      current: undefined,
      last: undefined,
      waiting: [],
      requests: startRequestStream(),
      begunAt: 0,
      fault: undefined,
      isLast: false,
      isClosing: false,
      countedIn: headerBytes,
      countedOut: 0,
    });
    socket.resume();
  });
}
