// accept, in the HTTP part: a connection from the front begins with the front's header; the client's bytes follow.

import type { Socket } from 'node:net';
import { formatIp, mapIp } from '../../wire/ip-address.ts';
import { MAX_PROXY_HEADER, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { readHandOver } from '../hand-over.ts';
import type { HttpConnection } from './exchange.ts';
import type { H2Connection } from './h2-connect.ts';

/** Told once the header is there. */
export interface Accepted {
  /** The client's bytes are still to be read. */
  http(connection: HttpConnection): void;
  /** One that speaks HTTP/2, and what it has said so far. */
  h2(connection: H2Connection, first: Buffer): void;
}

export function acceptHandOver(socket: Socket, accepted: Accepted): void {
  let held: Buffer = Buffer.alloc(0);
  socket.on('error', () => {});
  // The client was gone before there was anything to hand over.
  const onEnd = () => socket.destroy();
  const onData = (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const header = parseProxyHeader(held, 0, held.length);
    if (header.kind === 'incomplete' && held.length < MAX_PROXY_HEADER) return;
    const told = header.kind === 'found' ? readHandOver(header.value) : undefined;
    if (header.kind !== 'found' || told === undefined || header.value.source === undefined) {
      socket.destroy();
      return;
    }
    const { source, destination = source, end } = header.value;
    socket.off('data', onData);
    socket.off('end', onEnd);
    socket.pause();
    if (told.isH2) return accepted.h2({ socket, told, source, destination }, held.subarray(end));
    // node:http closes behind the last answer. With bytes unread that is a reset, which may overtake the answer: so it
    // is FIN alone, on which the front closes.
    socket.destroySoon = () => socket.end();
    socket.unshift(held.subarray(end));
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
      isLast: false,
      isClosing: false,
      countedIn: end,
      countedOut: 0,
    });
    socket.resume();
  };
  socket.once('end', onEnd);
  socket.on('data', onData);
}
