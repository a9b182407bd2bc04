// The log of `run` and `agent`: JSON lines on stdout, or readable text on a terminal. Writing never blocks the control
// thread: when the reader is slow, lines are dropped and counted.

import { once } from 'node:events';
import { type Logger, pino } from 'pino';
import type { LogSettings } from '../config/config.ts';
import { printableJson } from '../text/printable.ts';
import { DroppedLines } from './dropped-lines.ts';
import { textLine } from './log-text.ts';

/** Bytes buffered for a slow reader. */
const MAX_WAITING = 8 * 1024 * 1024;
/** How long close() waits for the reader to take the last lines. */
const FLUSH_MS = 1000;

export interface Log {
  readonly logger: Logger;
  /** Takes effect from the next line on. */
  use(settings: LogSettings): void;
  /** Adds lines that were dropped before they reached the log; the log reports the total. */
  countDropped(count: number): void;
  /** Resolves when everything is written, or the reader does not take it. Later lines are not written. */
  close(): Promise<void>;
}

/** Logs to `file` if given, otherwise to stdout. */
export function openLog(settings: LogSettings, isTerminal: boolean, colour: boolean, file?: string): Log {
  const sink = pino.destination({ dest: file ?? 1, sync: false, maxLength: MAX_WAITING });
  const wantsText = ({ format }: LogSettings) => format === 'text' || (format === 'auto' && isTerminal);
  let asText = wantsText(settings);
  let isClosed = false;
  let isReportingDrops = false;
  /** Whether the last line was written. */
  let isWritten = false;
  const write = (line: string) => {
    if (isClosed) return;
    isWritten = true;
    sink.write(asText ? textLine(line, colour) : printableJson(line));
  };
  const logger = pino(
    {
      level: settings.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    { write },
  );
  const dropped = new DroppedLines(count => {
    isWritten = false;
    isReportingDrops = true;
    logger.warn({ count }, 'dropped');
    isReportingDrops = false;
    return isWritten;
  });
  // pino emits this before write() returns.
  sink.on('drop', () => {
    isWritten = false;
    if (!isReportingDrops) dropped.add(1);
  });
  // A reader that closed its end (EPIPE) must not stop the gateway.
  sink.on('error', () => {});
  const finish = async (signal: AbortSignal) => {
    // The report fits once the reader has taken what is buffered.
    if (!dropped.report() && logger.isLevelEnabled('warn')) {
      await once(sink, 'drain', { signal });
      dropped.report();
    }
    isClosed = true;
    const closed = once(sink, 'close', { signal });
    sink.end();
    await closed;
  };
  return {
    logger,
    use(next) {
      logger.level = next.level;
      asText = wantsText(next);
    },
    countDropped: count => dropped.add(count),
    async close() {
      if (isClosed) return;
      dropped[Symbol.dispose]();
      // AbortSignal.timeout() would not keep the process alive.
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), FLUSH_MS);
      // Fails when the reader is stuck or gone: nothing more to do.
      await finish(late.signal).catch(() => {});
      clearTimeout(timer);
      isClosed = true;
    },
  };
}
