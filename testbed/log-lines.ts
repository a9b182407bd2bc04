// Reads back the JSON log of our own program.

import { setTimeout as delay } from 'node:timers/promises';
import type { Program } from './program.ts';

/** When a test gives up; a busy machine may need far longer than a quiet one. */
const LINE_TIMEOUT_MS = 60_000;
const POLL_MS = 20;

/** A JSON line of the log. */
export type LogLine = Record<string, unknown> & { readonly msg: string };

export interface LogLines {
  lines(): readonly LogLine[];
  /** The first matching line, past or future. */
  line(fits: (line: LogLine) => boolean, timeoutMs?: number): Promise<LogLine>;
}

export function logLines(program: Program): LogLines {
  // Each line is parsed once: tests look at the log every few milliseconds, and some logs have thousands of lines.
  let parsed: LogLine[] = [];
  let parsedTo = 0;
  const lines = () => {
    const text = program.log();
    if (text.length < parsedTo) {
      // The oldest lines were dropped (kept-log.ts).
      parsed = [];
      parsedTo = 0;
    }
    const end = text.lastIndexOf('\n') + 1;
    if (end > parsedTo) {
      const added = text
        .slice(parsedTo, end)
        .split('\n')
        .filter(line => line.startsWith('{') && line.endsWith('}'));
      parsed = [...parsed, ...added.map(line => JSON.parse(line) as LogLine)];
      parsedTo = end;
    }
    return parsed;
  };
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
