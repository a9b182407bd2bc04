// accept, in a part of ours: a connection from the front begins with the front's header; the client's bytes follow.

import type { Socket } from 'node:net';
import { type Endpoint, MAX_PROXY_HEADER, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { guard } from '../guard.ts';
import { type HandOff, readHandOff } from './hand-off.ts';

/** A connection that the front has handed over. */
export interface HandedOff {
  readonly socket: Socket;
  readonly handOff: HandOff;
  /** The true client, and where it believes to have connected to. */
  readonly source: Endpoint;
  readonly destination: Endpoint;
}

export interface Receiver {
  /**
   * `rest` is what the client has said so far, behind `headerBytes` of the front's; where its descriptor is lent, all that is
   * not to be read from there. The socket is paused then.
   */
  received(handed: HandedOff, rest: Buffer, headerBytes: number): void;
  /** Our own code threw before that was done; the socket closes right after. `told` where that is known by then. */
  fault(error: unknown, handOff: HandOff | undefined): void;
}

export function receiveHandOff(socket: Socket, receiver: Receiver): void {
  let held: Buffer = Buffer.alloc(0);
  let handOff: HandOff | undefined;
  const owner = {
    onFault: (error: unknown) => {
      receiver.fault(error, handOff);
      socket.destroy();
    },
  };
  // What breaks a socket ends it; an error that nobody listens for would end the thread.
  socket.on(
    'error',
    guard(owner, () => socket.destroy()),
  );
  // The client was gone before there was anything to hand over.
  const onEnd = guard(owner, () => socket.destroy());
  const onData = guard(owner, (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const header = parseProxyHeader(held, 0, held.length);
    if (header.kind === 'incomplete' && held.length < MAX_PROXY_HEADER) return;
    handOff = header.kind === 'found' ? readHandOff(header.value) : undefined;
    if (header.kind !== 'found' || handOff === undefined || header.value.source === undefined) {
      socket.destroy();
      return;
    }
    const { source, destination = source, end } = header.value;
    if (held.length - end < (handOff.lentBehind ?? 0)) return;
    socket.off('data', onData);
    socket.off('end', onEnd);
    socket.pause();
    receiver.received({ socket, handOff, source, destination }, held.subarray(end), end);
  });
  socket.once('end', onEnd);
  socket.on('data', onData);
}
