// One worker's memory for bytes that a side of a tunnel does not take yet. A cluster that stalls must not use up the
// memory of the others. The bytes of one read are kept until that side takes them, and nothing more is read for it
// meanwhile; so the size of a read bounds the memory. While there is room, a read uses a large buffer, which is kept as
// it is. A cluster that has used up its share is read in small pieces and finally in tiny ones, until its clients read
// again or are ended (`timeouts.stalled`).
//
// A share is half of what is left: one cluster alone gets half of the room, the next half of the rest.

import { FIRST_SLOT, KEPT_AT, type RouteCounters } from '../shared/shared-memory.ts';

/** Bytes per read from a tunnel. One such buffer serves all tunnels of a worker that do not stall. */
export const READ_BUFFER = 512 * 1024;
/** A remainder up to this size is copied, so that no large buffer is kept for it. */
export const SMALL_READ = 16 * 1024;
/** The read size once small pieces have used up their room too: each stalled direction can add only this much. */
export const TINY_READ = 1024;
/** Number of large buffers that may be kept: 32 MiB. */
const MOST_LARGE = 64;
/** Bytes of copies that may be kept before reads become tiny. */
const MOST_SMALL = 32 * 1024 * 1024;
/** Unused large buffers cached for later: 8 MiB. */
const SPARE_BUFFERS = 16;

/** The memory kept for a handle, and the cluster and route it counts for. */
interface Kept {
  readonly cluster: number;
  readonly route: number;
  readonly bytes: number;
}

/** The amount of a resource in use, by cluster slot. */
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
  /** The buffer for the next read. */
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

  /** Bytes to read at a time for a connection of that cluster. */
  readSpace(cluster: number): number {
    if (!this.#small.hasRoom(cluster)) return TINY_READ;
    return this.#large.hasRoom(cluster) ? READ_BUFFER : SMALL_READ;
  }

  /**
   * Keeps bytes [from, to) of `buffer`, or of other bytes, for that handle, which must have nothing kept. Returns their
   * new place: a copy that starts with them, or the large buffer itself, in which they stay where they are.
   */
  keep(
    handle: number,
    cluster: number,
    route: number,
    from: number,
    to: number,
    bytes: Uint8Array = this.buffer,
  ): Uint8Array {
    const isLarge = bytes === this.buffer && to - from > SMALL_READ;
    const kept = isLarge ? this.buffer : Uint8Array.prototype.slice.call(bytes, from, to);
    if (isLarge) this.buffer = this.#spare.pop() ?? Buffer.allocUnsafeSlow(READ_BUFFER);
    this.#count({ cluster, route, bytes: kept.length }, 1);
    this.#kept.set(handle, { cluster, route, bytes: kept.length });
    return kept;
  }

  /** The handle's bytes were taken or lost. False when the buffer is not from here. */
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
    // Slots of our own have no labels in the metrics.
    this.#counters.add(route < FIRST_SLOT ? 0 : route, KEPT_AT, times * bytes);
  }
}
