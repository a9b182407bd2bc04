// A count of entries that expire, in a few words of shared memory that all threads may change. Each entry counts up to
// a given second, and slightly longer, since seconds are grouped by eight: the count is never too low while the clock
// runs forward.

import { acquire, release } from './spin-lock.ts';

const GROUP_SECONDS = 8;
/** No entry counts longer than this: a signature from a minute ahead is valid for two minutes, rounded up. */
const MOST_SECONDS = 121;
/** The number of groups that this many seconds can span. */
const GROUPS = Math.ceil(MOST_SECONDS / GROUP_SECONDS) + 1;

/** Lock, the clock's group at the last call, then the counts of that group and the following ones. */
const FIRST_AT = 1;
const COUNTS_AT = 2;
export const RECENT_COUNT_WORDS = COUNTS_AT + GROUPS;

/** Counts one more, up to and including the second `until`; false if there are `most` already. */
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
 * Clears first and then moves on: a thread that ends in between leaves no entry too many. A clock that was set back
 * starts over; otherwise entries from the old time would stay until the clock reaches it again.
 */
function forget(words: Int32Array, at: number, group: number): void {
  const first = words[at + FIRST_AT];
  // Threads read the clock one after another and may arrive here out of order.
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
