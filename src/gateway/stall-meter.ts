// `timeouts.stalled` for Node's own streams, in the HTTP and TLS threads: is data waiting while nothing moves? Polled,
// for all streams of one connection together, so that no byte has to reset a timer.

import type { Duplex } from 'node:stream';

/** The counters that show progress; not every stream has all of them. */
export type Metered = Pick<Duplex, 'writableLength'> & {
  readonly bytesRead?: number;
  readonly bytesWritten?: number;
  /** Node's internal handle. libuv knows how much of the chunk being written is left. */
  readonly _handle?: { readonly writeQueueSize?: number } | null;
};

export class StallMeter {
  #moved = -1;
  #since = 0;

  /**
   * True when bytes wait in a stream, or the caller expects some (`isAwaited`), and nothing has moved in any stream for
   * `limitMs`. Without a limit, always false.
   */
  isStalled(
    streams: readonly (Metered | undefined)[],
    isAwaited: boolean,
    limitMs: number | undefined,
    now: number,
  ): boolean {
    let moved = 0;
    let isWaiting = isAwaited;
    for (const stream of streams) {
      if (stream === undefined) continue;
      if (stream.writableLength > 0) isWaiting = true;
      moved += progressOf(stream);
    }
    if (moved !== this.#moved || !isWaiting) {
      this.#moved = moved;
      this.#since = now;
      return false;
    }
    return limitMs !== undefined && now - this.#since >= limitMs;
  }
}

/** Bytes received plus bytes handed to the kernel. */
function progressOf({ bytesRead = 0, bytesWritten = 0, writableLength, _handle }: Metered): number {
  return bytesRead + bytesWritten - writableLength - (_handle?.writeQueueSize ?? 0);
}
