// The log of `run` and `agent`: JSON lines on stdout, or text for people when it is a terminal. Writing never holds
// up the control thread: when the reader is slow, lines are dropped and counted.

import { type Logger, pino } from 'pino';
import type { LogSettings } from '../config/config.ts';
import { textLine } from './log-text.ts';

/** What may wait for a slow reader. */
const MAX_WAITING = 8 * 1024 * 1024;
/** How long the end of the process waits for the last lines to be taken. */
const FLUSH_MS = 1000;
const DROPPED_EVERY_MS = 1000;

export interface Log {
  readonly logger: Logger;
  /** From the next line on. */
  use(settings: LogSettings): void;
  /** Resolves when everything is written, or nobody takes it. */
  close(): Promise<void>;
}

/** To a file where one is named, else to stdout. */
export function openLog(settings: LogSettings, isTerminal: boolean, colour: boolean, file?: string): Log {
  const sink = pino.destination({ dest: file ?? 1, sync: false, maxLength: MAX_WAITING });
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;
  sink.on('drop', () => {
    dropped++;
    timer ??= setTimeout(() => {
      const count = dropped;
      dropped = 0;
      timer = undefined;
      logger.warn({ count }, 'dropped');
    }, DROPPED_EVERY_MS);
  });
  // A reader that went away (EPIPE) is no reason to stop serving.
  sink.on('error', () => {});
  const wantsText = ({ format }: LogSettings) => format === 'text' || (format === 'auto' && isTerminal);
  let asText = wantsText(settings);
  let isClosed = false;
  const logger = pino(
    {
      level: settings.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    {
      write(line) {
        if (!isClosed) sink.write(asText ? textLine(line, colour) : line);
      },
    },
  );
  return {
    logger,
    use(next) {
      logger.level = next.level;
      asText = wantsText(next);
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      clearTimeout(timer);
      let late: NodeJS.Timeout | undefined;
      await Promise.race([
        // Not flush(): without a minimum length that answers before the write under way is done.
        new Promise<void>(resolve => {
          sink.once('close', resolve);
          sink.end();
        }),
        new Promise<void>(resolve => {
          late = setTimeout(resolve, FLUSH_MS);
        }),
      ]);
      clearTimeout(late);
    },
  };
}
