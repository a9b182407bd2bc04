// A lock in shared memory for critical sections of a few words, which guard the counts common to all workers. No call
// inside a section may wait or throw. It is one Int32, zero when free, and not reentrant.

const FREE = 0;
const HELD = 1;

/** Tries before a nap: about 5 µs, a hundred times the length of a section. After that the holder is not running. */
const LOOKS = 100;
/** The holder may have lost its core and need ours: yield it, for no longer than the scheduler's own granularity. */
const NAP_MS = 1;
/**
 * After a second of naps the holder is presumed dead: a thread can be terminated between any two instructions, and must
 * not stop the others. Naps are counted rather than time, so that suspending the machine does no harm.
 */
const NAPS = 1000;

/** The guarded data must be valid after every single write, since a dead holder may have stopped after any. */
export function acquire(
  words: Int32Array,
  at: number,
  nap: (words: Int32Array, at: number) => void = napOnce,
): void {
  if (Atomics.compareExchange(words, at, FREE, HELD) !== FREE) contend(words, at, nap);
}

export function release(words: Int32Array, at: number): void {
  Atomics.store(words, at, FREE);
}

function contend(words: Int32Array, at: number, nap: (words: Int32Array, at: number) => void): void {
  for (let naps = 0; naps < NAPS; naps++) {
    for (let look = 0; look < LOOKS; look++) {
      if (Atomics.load(words, at) === FREE && Atomics.compareExchange(words, at, FREE, HELD) === FREE) return;
      Atomics.pause();
    }
    nap(words, at);
  }
}

function napOnce(words: Int32Array, at: number): void {
  Atomics.wait(words, at, HELD, NAP_MS);
}
