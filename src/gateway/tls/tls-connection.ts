// A connection that a worker has handed off to the TLS thread, and whether the worker still has it. A unix socket has
// FIN but no reset: verdicts in shared memory tell when a connection was reset or cut (verdicts.ts).

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Endpoint } from '../../wire/proxy-protocol.ts';
import { type FaultOwner, guard } from '../guard.ts';
import type { HandOff } from '../shared/hand-off.ts';
import type { HandedOff } from '../shared/receive-hand-off.ts';
import { type Metered, StallMeter } from '../stall-meter.ts';

/** Once both sides have ended, bytes still on their way get this long. */
const LAST_BYTES_MS = 60_000;

/** How much is read from a client while its gateway is dialled; the rest waits in the kernel. */
const MAX_AHEAD = 64 * 1024;

export class TlsConnection implements HandedOff, FaultOwner {
  readonly socket: Socket;
  readonly handOff: HandOff;
  readonly source: Endpoint;
  readonly destination: Endpoint;
  readonly #isCurrent: () => boolean;
  readonly #reportFault: (connection: TlsConnection, error: unknown) => void;
  readonly #gone = new AbortController();
  #client: Duplex;
  #lastBytes: NodeJS.Timeout | undefined;
  #ahead: Buffer[] = [];
  #onEnd = () => {};
  readonly #meter = new StallMeter();
  #joined: readonly Metered[] = [];

  /** `isCurrent`: whether the worker still has it. `reportFault` reports to the worker before the connection is cut. */
  constructor(
    { socket, handOff, source, destination }: HandedOff,
    isCurrent: () => boolean,
    reportFault: (connection: TlsConnection, error: unknown) => void,
  ) {
    this.socket = socket;
    this.handOff = handOff;
    this.source = source;
    this.destination = destination;
    this.#isCurrent = isCurrent;
    this.#reportFault = reportFault;
    this.#client = socket;
    socket.once(
      'close',
      guard(this, () => clearTimeout(this.#lastBytes)),
    );
    socket.once(
      'end',
      guard(this, () => this.check()),
    );
  }

  onFault(error: unknown): void {
    this.#reportFault(this, error);
    this.cut();
  }

  /** Aborted when the connection was cut: the other side must be cut too. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Reads the client's first bytes until take(). Calls `ended` if the client ends before that. */
  readAhead(ended: () => void): void {
    this.#onEnd = guard(this, ended);
    this.socket.on('data', this.#onAhead);
    this.socket.once('end', this.#onEnd);
    this.socket.resume();
  }

  /** Stops reading and returns what readAhead() has read. */
  take(): Buffer {
    this.socket.off('data', this.#onAhead);
    this.socket.off('end', this.#onEnd);
    this.socket.pause();
    return Buffer.concat(this.#ahead.splice(0));
  }

  /** The client's first byte, read ahead or not; undefined if it ends or sends nothing within that time. */
  async firstByte(waitMs: number): Promise<number | undefined> {
    if (this.#client !== this.socket) return undefined;
    const ahead = this.take();
    if (ahead.length > 0) return ahead[0];
    const { promise, resolve: settle } = Promise.withResolvers<void>();
    const resolve = () => settle();
    const timer = setTimeout(guard(this, resolve), waitMs);
    this.readAhead(resolve);
    this.socket.once('data', guard(this, resolve));
    this.socket.once('close', guard(this, resolve));
    await promise;
    clearTimeout(timer);
    return this.take()[0];
  }

  readonly #onAhead = guard(this, (chunk: Buffer): void => {
    this.#ahead.push(chunk);
    const length = this.#ahead.reduce((sum, one) => sum + one.length, 0);
    if (length >= MAX_AHEAD) this.socket.pause();
  });

  /** The client's bytes pass through that stream, which now owns the socket. */
  through(stream: Duplex): void {
    this.#client = stream;
    stream.once(
      'end',
      guard(this, () => this.check()),
    );
  }

  /** Bytes pass between these two from now on. */
  joined(near: Metered, far: Metered): void {
    this.#joined = [near, far];
  }

  /** Whether bytes wait in one of its streams and nothing moves. Times in ms. */
  isStalled(limitMs: number | undefined, now: number): boolean {
    return this.#meter.isStalled(this.#joined, false, limitMs, now);
  }

  /** Cuts the connection if the worker has ended it; after our FIN, the last bytes get some time first. */
  check(): void {
    if (this.#isCurrent()) return;
    if (this.#client.writableEnded)
      this.#lastBytes ??= setTimeout(
        guard(this, () => this.cut()),
        LAST_BYTES_MS,
      ).unref();
    else this.cut();
  }

  cut(): void {
    this.#gone.abort();
    this.#client.destroy();
    this.socket.destroy();
  }
}
