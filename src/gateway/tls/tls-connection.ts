// A connection that the front has handed to the TLS part, and whether the front still has it. A unix socket knows FIN
// but no reset: what the client ended with a reset, and what was cut, is told by shared memory (verdicts.ts).

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Endpoint } from '../../wire/proxy-protocol.ts';
import type { HandOver } from '../hand-over.ts';

/** Once both sides have ended, what is still on its way gets this long. */
const LAST_BYTES_MS = 60_000;

export interface HandedOver {
  readonly socket: Socket;
  readonly told: HandOver;
  readonly source: Endpoint;
  readonly destination: Endpoint;
}

export class TlsConnection implements HandedOver {
  readonly socket: Socket;
  readonly told: HandOver;
  readonly source: Endpoint;
  readonly destination: Endpoint;
  readonly #isCurrent: () => boolean;
  readonly #gone = new AbortController();
  #client: Duplex;
  #lastBytes: NodeJS.Timeout | undefined;

  /** `isCurrent`: whether the front still has it. */
  constructor({ socket, told, source, destination }: HandedOver, isCurrent: () => boolean) {
    this.socket = socket;
    this.told = told;
    this.source = source;
    this.destination = destination;
    this.#isCurrent = isCurrent;
    this.#client = socket;
    socket.once('close', () => clearTimeout(this.#lastBytes));
    socket.once('end', () => this.look());
  }

  /** Aborted when it was cut off: the other side is to be cut off too. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** The client's bytes pass through that stream, which has taken the socket. */
  through(stream: Duplex): void {
    this.#client = stream;
    stream.once('end', () => this.look());
  }

  /** Has the front let go of it? Before both sides have ended that is a cut. */
  look(): void {
    if (this.#isCurrent()) return;
    if (this.#client.writableEnded) this.#lastBytes ??= setTimeout(() => this.cut(), LAST_BYTES_MS).unref();
    else this.cut();
  }

  cut(): void {
    this.#gone.abort();
    this.#client.destroy();
    this.socket.destroy();
  }
}
