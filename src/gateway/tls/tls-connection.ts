// A connection that the front has handed to the TLS part, and whether the front still has it. A unix socket knows FIN
// but no reset: what the client ended with a reset, and what was cut, is told by shared memory (verdicts.ts).

import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Endpoint } from '../../wire/proxy-protocol.ts';
import { type FaultOwner, guard } from '../guard.ts';
import type { HandOff } from '../shared/hand-off.ts';
import type { HandedOff } from '../shared/receive-hand-off.ts';
import { type Metered, StallMeter } from '../stall-meter.ts';

/** Once both sides have ended, what is still on its way gets this long. */
const LAST_BYTES_MS = 60_000;

/** What a client may send ahead while its gateway is dialled; beyond that it waits in the kernel. */
const MAX_AHEAD = 64 * 1024;

export class TlsConnection implements HandedOff, FaultOwner {
  readonly socket: Socket;
  readonly handOff: HandOff;
  readonly source: Endpoint;
  readonly destination: Endpoint;
  readonly #isCurrent: () => boolean;
  readonly #tellFault: (connection: TlsConnection, error: unknown) => void;
  readonly #gone = new AbortController();
  #client: Duplex;
  #lastBytes: NodeJS.Timeout | undefined;
  #ahead: Buffer[] = [];
  #onEnd = () => {};
  readonly #meter = new StallMeter();
  #joined: readonly Metered[] = [];

  /** `isCurrent`: whether the front still has it. `tellFault` says so to the front before it is cut off. */
  constructor(
    { socket, handOff, source, destination }: HandedOff,
    isCurrent: () => boolean,
    tellFault: (connection: TlsConnection, error: unknown) => void,
  ) {
    this.socket = socket;
    this.handOff = handOff;
    this.source = source;
    this.destination = destination;
    this.#isCurrent = isCurrent;
    this.#tellFault = tellFault;
    this.#client = socket;
    socket.once(
      'close',
      guard(this, () => clearTimeout(this.#lastBytes)),
    );
    socket.once(
      'end',
      guard(this, () => this.look()),
    );
  }

  onFault(error: unknown): void {
    this.#tellFault(this, error);
    this.cut();
  }

  /** Aborted when it was cut off: the other side is to be cut off too. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Reads what the client says ahead, until take(). `left` is called when it ends before that. */
  listen(left: () => void): void {
    this.#onEnd = guard(this, left);
    this.socket.on('data', this.#hear);
    this.socket.once('end', this.#onEnd);
    this.socket.resume();
  }

  /** What the client has said ahead. Nothing more is read. */
  take(): Buffer {
    this.socket.off('data', this.#hear);
    this.socket.off('end', this.#onEnd);
    this.socket.pause();
    return Buffer.concat(this.#ahead.splice(0));
  }

  /** The first byte that the client says, or has said ahead: none when it ends, or says nothing within that time. */
  async firstByte(waitMs: number): Promise<number | undefined> {
    if (this.#client !== this.socket) return undefined;
    const said = this.take();
    if (said.length > 0) return said[0];
    const { promise, resolve: settle } = Promise.withResolvers<void>();
    const resolve = () => settle();
    const timer = setTimeout(guard(this, resolve), waitMs);
    this.listen(resolve);
    this.socket.once('data', guard(this, resolve));
    this.socket.once('close', guard(this, resolve));
    await promise;
    clearTimeout(timer);
    return this.take()[0];
  }

  readonly #hear = guard(this, (chunk: Buffer): void => {
    this.#ahead.push(chunk);
    const length = this.#ahead.reduce((sum, one) => sum + one.length, 0);
    if (length >= MAX_AHEAD) this.socket.pause();
  });

  /** The client's bytes pass through that stream, which has taken the socket. */
  through(stream: Duplex): void {
    this.#client = stream;
    stream.once(
      'end',
      guard(this, () => this.look()),
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

  /** Has the front let go of it? Before both sides have ended that is a cut. */
  look(): void {
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
