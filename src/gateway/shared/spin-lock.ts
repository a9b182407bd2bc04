// A lock in shared memory for critical sections of a few words, used by what all workers count together. Inside it
// nothing is called that could wait or throw. It is one Int32, zero when free, and not reentrant.

const FREE = 0;
const HELD = 1;

/** Looks before napping: about 5 µs, a hundred times what a section takes. Beyond that its holder is not running. */
const LOOKS = 100;
/** A holder that lost its core needs ours, perhaps: give it up, for no longer than the scheduler's own grain. */
const NAP_MS = 1;
/**
 * After a second of naps the holder is taken for dead: a thread can be terminated between any two instructions, and
 * the others must not stop with it. Naps are counted rather than time, so that a suspended machine loses nothing.
 */
const NAPS = 1000;

/** What is guarded must be sensible after each single write, since a dead holder may have stopped after any. */
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
