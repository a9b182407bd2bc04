// The value of a Connection field (RFC 9110 7.6.1): what it says about the connection, and which fields it names.

import { isTextInAnyCase, latin1 } from './latin1.ts';

export const CLOSES = 1;
export const KEEPS_ALIVE = 2;
export const UPGRADES = 4;
/** It names fields that are for the next hop only: see namedFields(). */
export const NAMES_FIELDS = 8;

export function connectionOptions(bytes: Uint8Array, from: number, to: number): number {
  if (isTextInAnyCase(bytes, from, to, 'keep-alive')) return KEEPS_ALIVE;
  if (isTextInAnyCase(bytes, from, to, 'close')) return CLOSES;
  if (isTextInAnyCase(bytes, from, to, 'upgrade')) return UPGRADES;
  const text = latin1(bytes, from, to);
  return (
    (/\bclose\b/i.test(text) ? CLOSES : 0) |
    (/\bkeep-alive\b/i.test(text) ? KEEPS_ALIVE : 0) |
    (/\bupgrade\b/i.test(text) ? UPGRADES : 0) |
    NAMES_FIELDS
  );
}

/** The other tokens of such a value, in lower case. */
export function namedFields(value: string): string[] {
  return value
    .toLowerCase()
    .split(',')
    .map(token => token.trim())
    .filter(name => name !== '' && name !== 'close' && name !== 'keep-alive' && name !== 'upgrade');
}
