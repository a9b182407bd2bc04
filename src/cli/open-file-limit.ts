// How many descriptors the process may open. Node raises the soft limit to the hard limit when it starts.

import { readFileSync } from 'node:fs';

/** Without /proc: the minimum that macOS gives an ordinary process. */
const UNKNOWN = 10_240;
const UNLIMITED = 1 << 20;

export function openFileLimit(): number {
  try {
    const line = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    if (line === null) return UNKNOWN;
    return line[1] === 'unlimited' ? UNLIMITED : Number(line[1]);
  } catch {
    return UNKNOWN;
  }
}
