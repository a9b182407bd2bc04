// The health of backends in words and tones. Red is for an outage alone: a backend that is down beside others that serve
// is a warning.

import type { Health } from './cluster-view.ts';
import { formatCount } from './format.ts';

/** A class of the style sheet. */
export type Tone = 'up' | 'warning' | 'down' | 'unknown';

export function toneOf({ down, unknown, backends, outage }: Health): Tone {
  if (outage) return 'down';
  if (down > 0) return 'warning';
  return unknown > 0 || backends === 0 ? 'unknown' : 'up';
}

/** `3 up`, `1 of 3 down`, `2 up, 1 unknown`. */
export function healthText({ backends, down, unknown }: Health, noun = ''): string {
  if (backends === 0) return `no ${noun || 'backend'}`;
  const of = (count: number) =>
    count === backends ? formatCount(count) : `${formatCount(count)} of ${formatCount(backends)}`;
  const what = noun === '' ? '' : ` ${backends === 1 ? noun : `${noun}s`}`;
  if (down > 0) return `${of(down)}${what} down`;
  if (unknown === backends) return `${formatCount(unknown)}${what} unknown`;
  const up = `${formatCount(backends - unknown)}${what} up`;
  return unknown === 0 ? up : `${up}, ${formatCount(unknown)} unknown`;
}
