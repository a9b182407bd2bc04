// The replacement that `run` begins, with what it needs to know about the process.

import { tmpdir } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { ReplaceError } from '../replacement/replace-error.ts';
import type { Replacement } from '../replacement/replacement.ts';
import type { machine } from './machine.ts';

/** Undefined where processes cannot pass sockets to each other. */
export async function openReplacement(
  file: string,
  { runDir }: Config,
  { platform, uid = 0 }: ReturnType<typeof machine>,
  isWanted: boolean,
  log: Logger,
): Promise<Replacement | undefined> {
  if (platform !== 'linux') {
    if (isWanted) throw new ReplaceError(`--replace needs Linux, and this is ${platform}`);
    return undefined;
  }
  const { Replacement: Opened } = await import('../replacement/replacement.ts');
  return Opened.begin({
    configured: runDir === undefined ? undefined : resolve(dirname(file), runDir),
    runtimeDirectory: process.env['XDG_RUNTIME_DIR'],
    temporaryDirectory: tmpdir(),
    uid,
    pid: process.pid,
    isWanted,
    log,
  });
}
