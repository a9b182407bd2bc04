// accept, in a protocol thread: reads the worker's header, which precedes the client's bytes.

import type { Socket } from 'node:net';
import { type Endpoint, MAX_PROXY_HEADER, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { guard } from '../guard.ts';
import { type HandOff, readHandOff } from './hand-off.ts';

/** A connection handed off by a worker. */
export interface HandedOff {
  readonly socket: Socket;
  readonly handOff: HandOff;
  /** The true client, and the address it connected to from its own point of view. */
  readonly source: Endpoint;
  readonly destination: Endpoint;
}

export interface Receiver {
  /**
   * `rest` holds the client's bytes so far, after `headerBytes` of the worker's header; for a lent client, all bytes
   * that cannot be read from its descriptor. The socket is paused.
   */
  received(handed: HandedOff, rest: Buffer, headerBytes: number): void;
  /** Our own code threw before `received` was done; the socket closes next. `handOff` is set if it was already read. */
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
  // Any error ends the socket; without a listener it would end the thread.
  socket.on(
    'error',
    guard(owner, () => socket.destroy()),
  );
  // The client left before the hand-off was complete.
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
