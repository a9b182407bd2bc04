// TLS of our own on a socket, as the reactor sees it.

import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { CloseReason } from '../close-reason.ts';
import { type FaultOwner, guard } from '../guard.ts';
import { isCutOff, type Stream } from '../io/net-reactor.ts';

/** Bytes that came before a reset are passed on, unless the peer takes longer than this to read them. */
const LAST_BYTES_MS = 2000;
/** How long the peer may take to read the rest of a connection that has ended. */
const LINGER_MS = 30_000;

const nothing = new Uint8Array(0);

export class TlsStream implements Stream {
  readonly duplex: TLSSocket;
  readonly socket: Socket;
  /** Why the connection in it has ended. */
  reason: CloseReason = 'done';
  /** It was reset by us. */
  isCut = false;
  readonly #owner: FaultOwner;

  constructor(duplex: TLSSocket, socket: Socket, owner: FaultOwner) {
    this.duplex = duplex;
    this.socket = socket;
    this.#owner = owner;
  }

  write(bytes: Uint8Array, taken: () => void): void {
    this.duplex.write(bytes, taken);
  }

  end(): void {
    this.duplex.end();
  }

  close(): void {
    const { duplex } = this;
    const cut = guard(this.#owner, () => duplex.destroy());
    const timer = setTimeout(cut, LINGER_MS).unref();
    duplex.once(
      'close',
      guard(this.#owner, () => clearTimeout(timer)),
    );
    duplex.resume();
    duplex.destroySoon();
  }

  /** Without close_notify, which would make the stream look complete; after the bytes that came before. */
  reset(): void {
    const { duplex, socket } = this;
    this.isCut = true;
    const cut = guard(this.#owner, () => {
      clearTimeout(timer);
      if (!socket.destroyed) socket.resetAndDestroy();
      duplex.destroy();
    });
    const timer = setTimeout(cut, LAST_BYTES_MS);
    if (duplex.writableLength === 0 || !duplex.writable) cut();
    else duplex.write(nothing, cut);
  }

  wasReset(): boolean {
    return !this.duplex.writableEnded && isCutOff(this.socket);
  }
}
