// Durations in causeway.yaml: 500ms, 5s, 10m, 1h, and `off` for settings that can be switched off.

import { bad, good, mustBe, type Reading } from './reading.ts';

const DURATION = /^(\d{1,15})(ms|s|m|h)$/;
const MS_PER_UNIT = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;

/** Timers count milliseconds in 31 bits; this is the largest number of whole hours. */
const LONGEST = '596h';
const LONGEST_MS = 596 * MS_PER_UNIT.h;

/** Milliseconds; undefined when the text is not a duration. `off` is not one. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text);
  if (match === null) return undefined;
  return Number(match[1]) * MS_PER_UNIT[match[2] as keyof typeof MS_PER_UNIT];
}

/** `also` is added to the message, for further values that are allowed. */
export function readDuration(value: unknown, leastMs: number, also = ''): Reading<number> {
  const what = `a duration such as 500ms, 5s, 10m, 1h${also}`;
  if (value === false)
    return { fault: `${mustBe(what, value)} (YAML 1.1 tools turn off into false: quote it)` };
  if (typeof value === 'number') return { fault: `${mustBe(what, value)} (the unit is missing)` };
  if (typeof value !== 'string') return bad(what, value);
  const ms = parseDuration(value);
  if (ms === undefined) return bad(`a whole number and a unit, such as 500ms, 5s, 10m, 1h${also}`, value);
  if (ms > LONGEST_MS) return bad(`at most ${LONGEST}${also}`, value);
  if (ms < leastMs)
    return bad(`${leastMs === 1 ? 'longer than 0s' : `at least ${leastMs / 1000}s`}${also}`, value);
  return good(ms);
}
