// A mistake in the file, as `run` and `check` print it: position, key, what is allowed, what was found.

import { printable } from '../text/printable.ts';

/** Keys and list indexes from the top level of the file. */
export type Path = readonly (string | number)[];

export interface Mistake {
  /** Counted from 1, as in editors; 0 for the file as a whole. */
  readonly line: number;
  readonly column: number;
  /** `clusters[0].api.hosts[0]`; empty for the file as a whole. */
  readonly path: string;
  readonly text: string;
}

export interface Place {
  readonly line: number;
  readonly column: number;
}

/** Positions of keys, by their path as in messages. */
export type Positions = ReadonlyMap<string, Place>;

/** The file as a whole, without a position. */
export const NOWHERE: Place = { line: 0, column: 0 };

/** A mistake that shows only when the config is applied. */
export function mistakeAt(positions: Positions, path: string, text: string): Mistake {
  return { ...(positions.get(path) ?? NOWHERE), path, text };
}

/** `causeway.yaml:12:5: clusters[0].api.hosts[0]: must be …` */
export function formatMistake(file: string, mistake: Mistake): string {
  const inside = mistake.path === '' ? '' : `${mistake.path}: `;
  return printable(`${formatPlace(file, mistake)}: ${inside}${mistake.text}`);
}

/** Sorts in the order of the file. */
export function byPlace(a: Place, b: Place): number {
  return a.line - b.line || a.column - b.column;
}

export function formatPlace(file: string, place: Place): string {
  return place.line === 0 ? file : `${file}:${place.line}:${place.column}`;
}

export function formatPath(path: Path): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!PLAIN_KEY.test(step)) text += `[${JSON.stringify(step.slice(0, LONGEST_KEY))}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}

const PLAIN_KEY = /^[A-Za-z_][\w-]{0,63}$/;
const LONGEST_KEY = 64;
