// The log of our own program, read back by tests: its JSON lines as they come.

import { setTimeout as delay } from 'node:timers/promises';
import type { Program } from './program.ts';

const LINE_TIMEOUT_MS = 10_000;
const POLL_MS = 20;

/** A JSON line of the log. */
export type LogLine = Record<string, unknown> & { readonly msg: string };

export interface LogLines {
  lines(): LogLine[];
  /** The first line, past or to come, that fits. */
  line(fits: (line: LogLine) => boolean, timeoutMs?: number): Promise<LogLine>;
}

export function logLines(program: Program): LogLines {
  const lines = () =>
    program
      .log()
      .split('\n')
      .filter(line => line.startsWith('{') && line.endsWith('}'))
      .map(line => JSON.parse(line) as LogLine);
  return {
    lines,
    async line(fits, timeoutMs = LINE_TIMEOUT_MS) {
      const deadline = performance.now() + timeoutMs;
      for (;;) {
        const found = lines().find(fits);
        if (found !== undefined) return found;
        if (performance.now() > deadline)
          throw new Error(`No such log line within ${timeoutMs} ms:\n${program.log()}`);
        await delay(POLL_MS);
      }
    },
  };
}
