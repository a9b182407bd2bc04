// The log of `run` and `agent`: JSON lines on stdout, or text for people when it is a terminal. Writing never holds
// up the control thread: when the reader is slow, lines are dropped and counted.

import { once } from 'node:events';
import { type Logger, pino } from 'pino';
import type { LogSettings } from '../config/config.ts';
import { printableJson } from '../text/printable.ts';
import { DroppedLines } from './dropped-lines.ts';
import { textLine } from './log-text.ts';

/** What may wait for a slow reader. */
const MAX_WAITING = 8 * 1024 * 1024;
/** How long the end of the process waits for the last lines to be taken. */
const FLUSH_MS = 1000;

export interface Log {
  readonly logger: Logger;
  /** From the next line on. */
  use(settings: LogSettings): void;
  /** Lines that were lost before they came here; the log says how many were lost in all. */
  countDropped(count: number): void;
  /** Resolves when everything is written, or nobody takes it. What is logged from now on is not written. */
  close(): Promise<void>;
}

/** To a file where one is named, else to stdout. */
export function openLog(settings: LogSettings, isTerminal: boolean, colour: boolean, file?: string): Log {
  const sink = pino.destination({ dest: file ?? 1, sync: false, maxLength: MAX_WAITING });
  const wantsText = ({ format }: LogSettings) => format === 'text' || (format === 'auto' && isTerminal);
  let asText = wantsText(settings);
  let isClosed = false;
  let isSaying = false;
  /** Of the last line. */
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
    isSaying = true;
    logger.warn({ count }, 'dropped');
    isSaying = false;
    return isWritten;
  });
  // Emitted before write() returns.
  sink.on('drop', () => {
    isWritten = false;
    if (!isSaying) dropped.add(1);
  });
  // A reader that went away (EPIPE) is no reason to stop serving.
  sink.on('error', () => {});
  const finish = async (signal: AbortSignal) => {
    // The count finds room once the reader has taken what waits.
    if (!dropped.tell() && logger.isLevelEnabled('warn')) {
      await once(sink, 'drain', { signal });
      dropped.tell();
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
      // Not AbortSignal.timeout(), which does not keep the process alive.
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), FLUSH_MS);
      // Nobody takes it, or nobody is there any more.
      await finish(late.signal).catch(() => {});
      clearTimeout(timer);
      isClosed = true;
    },
  };
}
