// BIND's named on a folder with a named.conf; start-bind.ts and start-bind-resolver.ts write it.

import { copyFile } from 'node:fs/promises';
import { findProgram } from './packages.ts';
import { type Program, startProgram } from './program.ts';
import type { TempDir } from './temp-dir.ts';

/** Resolves when it has loaded its zones. */
export async function runNamed(dir: TempDir): Promise<Program> {
  // Debian's and Ubuntu's AppArmor profile lets /usr/sbin/named read only the machine's own files.
  const command = dir.file('named');
  await copyFile(findProgram('named') ?? 'named', command);
  return startProgram({
    command,
    args: ['-g', '-n', '1', '-c', dir.file('named.conf')],
    cwd: dir.path,
    ready: { log: / running$/m },
    // On SIGTERM it would write its journals into the zone files first.
    stopSignal: 'SIGKILL',
  });
}
