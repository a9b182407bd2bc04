// Memory of one worker for bytes that a side of a tunnel does not take: who stalls must not take it from the others. What
// one read brought is kept until it is taken, and nothing more is read for that side; so what bounds the memory is how much
// is read at a time. While there is room, that is a large buffer, which is kept as it is; a cluster that has used up its
// share is read in small pieces, and in the end in tiny ones, until its clients read on or are ended (`timeouts.stalled`).
//
// A share is as much as is left over: one cluster alone gets half of the room, the next half of what that one left.

import { FIRST_SLOT, KEPT_AT, type RouteCounters } from '../shared/shared-memory.ts';

/** As many bytes as one read takes from a tunnel. One such buffer serves all tunnels of a worker that do not stall. */
export const READ_BUFFER = 512 * 1024;
/** A rest up to this size is copied aside, so that no large buffer is kept for it. */
export const SMALL_READ = 16 * 1024;
/** Where even small pieces have become too many: as much as each stalled direction may still add. */
export const TINY_READ = 1024;
/** Large buffers that may be kept: 32 MiB. */
const MOST_LARGE = 64;
/** Bytes of copies that may be kept, before pieces are tiny. */
const MOST_SMALL = 32 * 1024 * 1024;
/** Large buffers that are nobody's, kept for later: 8 MiB. */
const SPARE_BUFFERS = 16;

/** What is kept for a handle: on whose account, and how much memory. */
interface Kept {
  readonly cluster: number;
  readonly route: number;
  readonly bytes: number;
}

/** How much of something is in use, by cluster slot. */
class Shares {
  readonly #most: number;
  readonly #by = new Map<number, number>();
  #used = 0;

  constructor(most: number) {
    this.#most = most;
  }

  hasRoom(cluster: number): boolean {
    return this.#used === 0 || (this.#by.get(cluster) ?? 0) < this.#most - this.#used;
  }

  add(cluster: number, amount: number): void {
    this.#used += amount;
    const share = (this.#by.get(cluster) ?? 0) + amount;
    if (share === 0) this.#by.delete(cluster);
    else this.#by.set(cluster, share);
  }
}

export class KeptBuffers {
  /** What the next read goes into. */
  buffer: Uint8Array = Buffer.allocUnsafeSlow(READ_BUFFER);
  readonly #counters: RouteCounters;
  readonly #large = new Shares(MOST_LARGE);
  readonly #small = new Shares(MOST_SMALL);
  /** By handle. */
  readonly #kept = new Map<number, Kept>();
  readonly #spare: Uint8Array[] = [];

  constructor(counters: RouteCounters) {
    this.#counters = counters;
  }

  /** How much to read at a time for a connection of that cluster. */
  readSpace(cluster: number): number {
    if (!this.#small.hasRoom(cluster)) return TINY_READ;
    return this.#large.hasRoom(cluster) ? READ_BUFFER : SMALL_READ;
  }

  /**
   * Keeps what stands in [from, to) of `buffer` for that handle, which has nothing else kept. Answers where it is from now
   * on: in a buffer that begins with it, or in the large one, where it stays.
   */
  keep(handle: number, cluster: number, route: number, from: number, to: number): Uint8Array {
    const isLarge = to - from > SMALL_READ;
    const kept = isLarge ? this.buffer : Uint8Array.prototype.slice.call(this.buffer, from, to);
    if (isLarge) this.buffer = this.#spare.pop() ?? Buffer.allocUnsafeSlow(READ_BUFFER);
    this.#count({ cluster, route, bytes: kept.length }, 1);
    this.#kept.set(handle, { cluster, route, bytes: kept.length });
    return kept;
  }

  /** What was kept for that handle is taken, or lost. False when the buffer is not from here. */
  giveBack(handle: number, buffer: Uint8Array): boolean {
    const kept = this.#kept.get(handle);
    if (kept === undefined) return false;
    this.#kept.delete(handle);
    this.#count(kept, -1);
    if (kept.bytes === READ_BUFFER && this.#spare.length < SPARE_BUFFERS) this.#spare.push(buffer);
    return true;
  }

  #count({ cluster, route, bytes }: Kept, times: 1 | -1): void {
    if (bytes === READ_BUFFER) this.#large.add(cluster, times);
    else this.#small.add(cluster, times * bytes);
    // Parts of ours have no names in the metrics.
    this.#counters.add(route < FIRST_SLOT ? 0 : route, KEPT_AT, times * bytes);
  }
}
