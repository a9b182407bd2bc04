// `timeouts.stalled` for Node's own streams, in the HTTP and TLS threads: do they stand still although bytes wait? Looked
// at now and then, for all streams of one connection together, so that no byte has to set a timer.

import type { Duplex } from 'node:stream';

/** What tells of progress; not every stream has all of it. */
export type Metered = Pick<Duplex, 'writableLength'> & {
  readonly bytesRead?: number;
  readonly bytesWritten?: number;
  /** Node's own. Of the chunk under way libuv knows how much is left. */
  readonly _handle?: { readonly writeQueueSize?: number } | null;
};

export class StallMeter {
  #moved = -1;
  #since = 0;

  /**
   * Whether bytes wait in one of them, or `isAwaited` says that some are waited for, and nothing has moved in any of them
   * for so long. Times in ms; without a limit never.
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

/** Bytes that came, and those that have left for the kernel. */
function progressOf({ bytesRead = 0, bytesWritten = 0, writableLength, _handle }: Metered): number {
  return bytesRead + bytesWritten - writableLength - (_handle?.writeQueueSize ?? 0);
}
