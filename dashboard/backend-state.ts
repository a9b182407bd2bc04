// The health of backends on the page: a mark and a word.

import { type ComponentChild, h } from 'preact';
import type { Health } from './cluster-view.ts';
import { healthText, type Tone, toneOf } from './health-text.ts';

const marks: Readonly<Record<Tone, string>> = { up: '●', warning: '▲', down: '▲', unknown: '?' };

export function stateMark(tone: Tone): ComponentChild {
  return h('i', { 'aria-hidden': 'true' }, marks[tone]);
}

export function backendState(up: boolean | null, outage: boolean): ComponentChild {
  if (up === null) return state('unknown', 'unknown');
  return up ? state('up', 'up') : state(outage ? 'down' : 'warning', 'down');
}

/** Of all backends of a route or cluster. */
export function healthState(health: Health): ComponentChild {
  return state(toneOf(health), healthText(health));
}

function state(tone: Tone, text: string): ComponentChild {
  return h('span', { class: `state ${tone}` }, stateMark(tone), text);
}
