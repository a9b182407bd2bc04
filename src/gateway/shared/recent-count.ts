// A count that forgets: how many were counted whose time is not over, in a few words of shared memory that all threads
// may change. Each is counted up to a given second, and a little longer, since seconds are counted in groups of eight:
// the count is never too small while the clock runs forward.

import { acquire, release } from './spin-lock.ts';

const GROUP_SECONDS = 8;
/** Nothing is counted for longer than this: a signature from a minute ahead is good for two, rounded up. */
const MOST_SECONDS = 121;
/** As many as those seconds can touch. */
const GROUPS = Math.ceil(MOST_SECONDS / GROUP_SECONDS) + 1;

/** Lock, the group that the clock was in when somebody last looked, then the counts of that group and those after it. */
const FIRST_AT = 1;
const COUNTS_AT = 2;
export const RECENT_COUNT_WORDS = COUNTS_AT + GROUPS;

/** Counts one more up to and with the second `until`, unless there are `most` already; then the answer is false. */
export function addRecent(
  words: Int32Array,
  at: number,
  until: number,
  now: number,
  most = Infinity,
): boolean {
  acquire(words, at);
  forget(words, at, groupOf(now));
  const hasRoom = sumOf(words, at) < most;
  if (hasRoom) {
    const first = words[at + FIRST_AT];
    const group = Math.min(Math.max(groupOf(until), first), first + GROUPS - 1);
    words[at + COUNTS_AT + (group % GROUPS)]++;
  }
  release(words, at);
  return hasRoom;
}

export function recentCount(words: Int32Array, at: number, now: number): number {
  acquire(words, at);
  forget(words, at, groupOf(now));
  const sum = sumOf(words, at);
  release(words, at);
  return sum;
}

/**
 * Clears first and moves on afterwards: a thread that ends in between leaves no more than there is. A clock that was put
 * back makes a new beginning; what was counted by the old one would otherwise stay until its time comes again.
 */
function forget(words: Int32Array, at: number, group: number): void {
  const first = words[at + FIRST_AT];
  // Threads look at the clock one after the other, and may get here in another order.
  if (group === first || group === first - 1) return;
  const over = group < first ? GROUPS : Math.min(group - first, GROUPS);
  for (let step = 0; step < over; step++) words[at + COUNTS_AT + ((first + step) % GROUPS)] = 0;
  words[at + FIRST_AT] = group;
}

function sumOf(words: Int32Array, at: number): number {
  let sum = 0;
  for (let index = 0; index < GROUPS; index++) sum += words[at + COUNTS_AT + index];
  return sum;
}

function groupOf(second: number): number {
  return Math.floor(second / GROUP_SECONDS);
}
