// Which HAProxy runs: `haproxy` of PATH, or the one that $CAUSEWAY_HAPROXY names. Its version decides what it can do.

import { execFile } from 'node:child_process';
import { printable } from '../text/printable.ts';
import { type HaproxyVersion, parseHaproxyVersion, whyUnsupported } from './haproxy-version.ts';

export interface HaproxyProgram {
  readonly path: string;
  readonly version: HaproxyVersion;
}

const VERSION_MS = 10_000;
/** Daemons are in sbin, which is not on everyone's PATH. */
const SBIN = '/usr/local/sbin:/usr/sbin:/sbin';
const FIX = 'install haproxy 2.6 or newer, or name it in CAUSEWAY_HAPROXY';

/** Throws a HaproxyError if there is none that can be used. */
export async function findHaproxy(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<HaproxyProgram> {
  const path = environment.CAUSEWAY_HAPROXY ?? 'haproxy';
  const { output, error } = await versionOf(path, environment);
  const version = parseHaproxyVersion(output);
  if (version === undefined) {
    const why = error?.code === 'ENOENT' ? 'not found' : (error?.message ?? 'it is another program').trim();
    throw new HaproxyError(`Cannot start HAProxy '${printable(path)}': ${printable(why)}; ${FIX}`);
  }
  const why = whyUnsupported(version);
  if (why !== undefined) throw new HaproxyError(`${why}; ${FIX}`);
  // engine-script.ts reads PROXY headers and sends alerts. Every distribution's package has it.
  if (!/^Built with Lua/m.test(output))
    throw new HaproxyError(
      `HAProxy ${version.text} is built without Lua, which engine haproxy needs; ${FIX}`,
    );
  return { path, version };
}

/** HAProxy is missing, too old, or does not accept what it is given: `run` exits with this, an edit is refused. */
export class HaproxyError extends Error {
  override readonly name = 'HaproxyError';
  readonly code = 'ERR_HAPROXY';
}

function versionOf(
  path: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly output: string; readonly error: NodeJS.ErrnoException | null }> {
  const env = withSbin(environment);
  return new Promise(resolve => {
    execFile(path, ['-vv'], { timeout: VERSION_MS, env }, (error, stdout, stderr) => {
      resolve({ output: `${stdout}${stderr}`, error: error as NodeJS.ErrnoException | null });
    });
  });
}

export function withSbin(environment: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  return { ...environment, PATH: `${environment.PATH ?? ''}:${SBIN}` };
}
