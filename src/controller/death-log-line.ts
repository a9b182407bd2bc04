// Logs the death of a thread, and a second line when threads of its kind keep dying.

import type { Logger } from 'pino';
import type { Death } from '../gateway/control/death-log.ts';

export function logDeath(
  log: Logger,
  thread: string,
  cause: Error,
  { count, pauseMs, keepsDying }: Death,
): void {
  log.error({ thread, err: cause }, 'thread died');
  if (!keepsDying) return;
  const seconds = pauseMs / 1000;
  log.error({ thread, deaths: count, retrySeconds: seconds }, 'threads of this kind keep dying; not ready');
}
