// Deadlines of all connections of one worker: each handle has at most one, kept in linked lists inside typed
// arrays, so that neither setting nor moving one allocates. The worker's loop sleeps until nextAt(), then calls
// advance() with its clock, which names the handles whose time has come.
//
// A deadline is rounded up to a tick. Those of the next 1,023 ticks stand in the wheel, one slot for each tick, so
// that a slot is due as a whole; later ones stand in one list that is looked through when the first of them may be
// due, at most once in a revolution. Hence tunnels that idle for hours cause no wake-ups.

/** With 16 ms for a tick the wheel spans 16 s: every time-out but `idle`, `halfClosed` and `drain` falls into it. */
const SLOTS = 1024;
const MASK = SLOTS - 1;
/** Dividing by a power of two is exact; two hello time-outs need not be told apart more finely. */
const TICK_MS = 16;

/** Lists behind those of the slots: already due when set; beyond the wheel; to be named by advance(). */
const DUE = SLOTS;
const FAR = SLOTS + 1;
const FIRING = SLOTS + 2;
const LISTS = SLOTS + 3;

/** In `#next`: the handle has no deadline. */
const UNLINKED = -1;

/** Handles must be 0 to capacity - 1: that is not checked. The clock must not go back; if it does, time stands. */
export class TimingWheel {
  readonly #capacity: number;
  readonly #tickMs: number;
  /** Rings; list L starts and ends at index capacity + L, so that linking has no case for an empty list. */
  readonly #next: Int32Array;
  readonly #prev: Int32Array;
  /** The tick at which each handle is due. Doubles, since an uptime in ticks outgrows 32 bits within a year. */
  readonly #tick: Float64Array;
  /** One bit for each list that is not empty. */
  readonly #occupied: Int32Array;
  /** Every slot up to and including this tick has been emptied. */
  #current: number;
  /** No handle in the list FAR is due before this tick. */
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

  /** Gives the handle this deadline in place of any other; Infinity is none. One that has passed is due at once. */
  set(handle: number, deadline: number): void {
    // Written so that NaN is none either: in the list FAR it would hide all the others.
    if (!(deadline < Infinity)) {
      this.clear(handle);
      return;
    }
    const tick = this.#tickAfter(deadline);
    if (this.#next[handle] !== UNLINKED) {
      // A busy tunnel moves its idle deadline with every read, mostly within one tick. What stands in FIRING must
      // leave it: it is not due any more.
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
   * Calls `expired` for each handle that is due; it has no deadline any more by then. `expired` may set and clear
   * any handle: one that is cleared before its turn is not named, one that is set anew not before the next call.
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

  /** When advance() should be called next; Infinity when no handle has a deadline. */
  nextAt(): number {
    if (this.#isOccupied(DUE) || this.#isOccupied(FIRING)) return this.#current * this.#tickMs;
    const far = this.#isOccupied(FAR) ? this.#farTick : Infinity;
    return Math.min(this.#firstTick(), far) * this.#tickMs;
  }

  /** Moves everything due by `target` to FIRING, at the cost of at most one revolution however far the clock went. */
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

  /** Takes out of FAR what is due or within the wheel's span by now. */
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
    // It was alone: both neighbours are the list's own end.
    const list = before - this.#capacity;
    this.#occupied[list >>> 5] &= ~(1 << (list & 31));
  }

  #isOccupied(list: number): boolean {
    return (this.#occupied[list >>> 5] & (1 << (list & 31))) !== 0;
  }

  /** The tick of the first slot that is not empty, going round from the one after the current. */
  #firstTick(): number {
    const start = (this.#current + 1) & MASK;
    // One word more than the wheel has: the first is looked at again for the slots before `start`.
    for (let i = 0; i <= SLOTS >>> 5; i++) {
      const index = ((start >>> 5) + i) & (MASK >>> 5);
      let refusal = this.#occupied[index];
      if (i === 0) refusal &= -1 << (start & 31);
      if (refusal === 0) continue;
      const slot = (index << 5) + 31 - Math.clz32(refusal & -refusal);
      return this.#current + 1 + ((slot - start) & MASK);
    }
    return Infinity;
  }

  /** The first tick that is not before this time. The correction is for ticks that do not divide exactly. */
  #tickAfter(time: number): number {
    const tick = Math.ceil(time / this.#tickMs);
    return tick * this.#tickMs < time ? tick + 1 : tick;
  }

  /** The last tick that is not after this time. */
  #tickBefore(time: number): number {
    const tick = Math.floor(time / this.#tickMs);
    return tick * this.#tickMs > time ? tick - 1 : tick;
  }
}
