// The deadlines of all connections of one worker. Each handle has at most one, kept in linked lists inside typed
// arrays, so that neither setting nor moving a deadline allocates. The worker's loop sleeps until nextAt(), then calls
// advance() with its clock, which reports the handles that are due.
//
// A deadline is rounded up to a tick. Deadlines within the next 1,023 ticks are in the wheel, one slot per tick, so
// that a slot expires as a whole. Later ones are in a single list, which is scanned when the first of them may be due,
// at most once per revolution. Tunnels that idle for hours therefore cause no wake-ups.

/** With a tick of 16 ms the wheel spans 16 s: every time-out except `idle`, `halfClosed` and `drain` fits. */
const SLOTS = 1024;
const MASK = SLOTS - 1;
/** Dividing by a power of two is exact, and time-outs need no finer resolution. */
const TICK_MS = 16;

/** Lists after those of the slots: already due when set; beyond the wheel; being reported by advance(). */
const DUE = SLOTS;
const FAR = SLOTS + 1;
const FIRING = SLOTS + 2;
const LISTS = SLOTS + 3;

/** In `#next`: the handle has no deadline. */
const UNLINKED = -1;

/** Handles must be 0 to capacity - 1 (not checked). If the clock goes back, time stands still. */
export class TimingWheel {
  readonly #capacity: number;
  readonly #tickMs: number;
  /** Rings; list L starts and ends at index capacity + L, so that linking needs no special case for an empty list. */
  readonly #next: Int32Array;
  readonly #prev: Int32Array;
  /** The tick at which each handle is due. Doubles, since uptime in ticks exceeds 32 bits within a year. */
  readonly #tick: Float64Array;
  /** One bit per list, set when the list is not empty. */
  readonly #occupied: Int32Array;
  /** Every slot up to and including this tick is empty. */
  #current: number;
  /** No handle in FAR is due before this tick. */
  #farTick = Infinity;

  constructor(capacity: number, now: number, tickMs = TICK_MS) {
    this.#capacity = capacity;
    this.#tickMs = tickMs;
    this.#next = new Int32Array(capacity + LISTS).fill(UNLINKED, 0, capacity);
    this.#prev = new Int32Array(capacity + LISTS);
    for (let list = capacity; list < capacity + LISTS; list++) {
      this.#next[list] = list;
      this.#prev[list] = list;
    }
    this.#tick = new Float64Array(capacity);
    this.#occupied = new Int32Array((LISTS + 31) >>> 5);
    this.#current = this.#tickBefore(now);
  }

  /** Replaces the handle's deadline; Infinity clears it. A deadline in the past is due at once. */
  set(handle: number, deadline: number): void {
    // Written so that NaN clears as well: in FAR it would hide all other deadlines.
    if (!(deadline < Infinity)) {
      this.clear(handle);
      return;
    }
    const tick = this.#tickAfter(deadline);
    if (this.#next[handle] !== UNLINKED) {
      // A busy tunnel moves its deadline often, mostly within one tick. A handle in FIRING must leave that list: it is
      // no longer due.
      if (tick === this.#tick[handle] && tick > this.#current) return;
      this.#unlink(handle);
    }
    this.#tick[handle] = tick;
    this.#place(handle, tick);
  }

  clear(handle: number): void {
    if (this.#next[handle] !== UNLINKED) this.#unlink(handle);
  }

  /**
   * Calls `expired` for each handle that is due, after clearing its deadline. `expired` may set and clear any handle:
   * one cleared before its turn is not reported, and one set again is reported by the next call at the earliest.
   */
  advance(now: number, expired: (handle: number) => void): void {
    const next = this.#next;
    const firing = this.#capacity + FIRING;
    const target = this.#tickBefore(now);
    this.#fire(DUE);
    if (target > this.#current) this.#turn(target);
    for (let handle = next[firing]; handle !== firing; handle = next[firing]) {
      this.#unlink(handle);
      expired(handle);
    }
  }

  /** When to call advance() next; Infinity when no handle has a deadline. */
  nextAt(): number {
    if (this.#isOccupied(DUE) || this.#isOccupied(FIRING)) return this.#current * this.#tickMs;
    const far = this.#isOccupied(FAR) ? this.#farTick : Infinity;
    return Math.min(this.#firstTick(), far) * this.#tickMs;
  }

  /** Moves everything due by `target` to FIRING, in at most one revolution however far the clock advanced. */
  #turn(target: number): void {
    const steps = Math.min(target - this.#current, SLOTS);
    for (let step = 1; step <= steps; step++) this.#fire((this.#current + step) & MASK);
    this.#current = target;
    if (target >= this.#farTick) this.#sortFar();
  }

  /** Appends a whole list to FIRING. */
  #fire(list: number): void {
    if (!this.#isOccupied(list)) return;
    const next = this.#next;
    const prev = this.#prev;
    const from = this.#capacity + list;
    const firing = this.#capacity + FIRING;
    const first = next[from];
    const last = prev[from];
    const before = prev[firing];
    next[before] = first;
    prev[first] = before;
    next[last] = firing;
    prev[firing] = last;
    next[from] = from;
    prev[from] = from;
    this.#occupied[list >>> 5] &= ~(1 << (list & 31));
    this.#occupied[FIRING >>> 5] |= 1 << (FIRING & 31);
  }

  /** Takes handles out of FAR that are due or within the wheel's span by now. */
  #sortFar(): void {
    const far = this.#capacity + FAR;
    let first = Infinity;
    let handle = this.#next[far];
    while (handle !== far) {
      const following = this.#next[handle];
      const tick = this.#tick[handle];
      if (tick - this.#current >= SLOTS) {
        first = Math.min(first, tick);
      } else {
        this.#unlink(handle);
        if (tick <= this.#current) this.#link(handle, FIRING);
        else this.#link(handle, tick & MASK);
      }
      handle = following;
    }
    this.#farTick = first;
  }

  #place(handle: number, tick: number): void {
    if (tick <= this.#current) {
      this.#link(handle, DUE);
    } else if (tick - this.#current < SLOTS) {
      this.#link(handle, tick & MASK);
    } else {
      this.#farTick = this.#isOccupied(FAR) ? Math.min(this.#farTick, tick) : tick;
      this.#link(handle, FAR);
    }
  }

  #link(handle: number, list: number): void {
    const end = this.#capacity + list;
    const last = this.#prev[end];
    this.#next[last] = handle;
    this.#prev[handle] = last;
    this.#next[handle] = end;
    this.#prev[end] = handle;
    this.#occupied[list >>> 5] |= 1 << (list & 31);
  }

  #unlink(handle: number): void {
    const before = this.#prev[handle];
    const after = this.#next[handle];
    this.#next[before] = after;
    this.#prev[after] = before;
    this.#next[handle] = UNLINKED;
    if (before !== after) return;
    // The list is empty now: both neighbours are its own end.
    const list = before - this.#capacity;
    this.#occupied[list >>> 5] &= ~(1 << (list & 31));
  }

  #isOccupied(list: number): boolean {
    return (this.#occupied[list >>> 5] & (1 << (list & 31))) !== 0;
  }

  /** The tick of the first occupied slot after the current one, going round. */
  #firstTick(): number {
    const start = (this.#current + 1) & MASK;
    // One word more than the wheel has: the first word is examined again for the slots before `start`.
    for (let i = 0; i <= SLOTS >>> 5; i++) {
      const index = ((start >>> 5) + i) & (MASK >>> 5);
      let word = this.#occupied[index];
      if (i === 0) word &= -1 << (start & 31);
      if (word === 0) continue;
      const slot = (index << 5) + 31 - Math.clz32(word & -word);
      return this.#current + 1 + ((slot - start) & MASK);
    }
    return Infinity;
  }

  /** The first tick at or after this time. The correction is for tick lengths that do not divide exactly. */
  #tickAfter(time: number): number {
    const tick = Math.ceil(time / this.#tickMs);
    return tick * this.#tickMs < time ? tick + 1 : tick;
  }

  /** The last tick at or before this time. */
  #tickBefore(time: number): number {
    const tick = Math.floor(time / this.#tickMs);
    return tick * this.#tickMs > time ? tick - 1 : tick;
  }
}
