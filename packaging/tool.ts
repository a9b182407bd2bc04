// Runs a program that a build needs: its output, or an error that says what went wrong and what to do.

import { execFile } from 'node:child_process';
import { basename } from 'node:path';

/** Where Debian has a program that may be missing. */
const PACKAGES: Readonly<Record<string, string>> = {
  'aarch64-linux-gnu-strip': 'binutils-aarch64-linux-gnu',
  'dpkg-deb': 'dpkg',
  ldd: 'libc-bin',
  strip: 'binutils',
};
const TIMEOUT_MS = 5 * 60_000;

export interface ToolOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export function tool(command: string, args: readonly string[], options: ToolOptions = {}): Promise<string> {
  const { cwd, env } = options;
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { cwd, env: { ...process.env, LC_ALL: 'C', ...env }, timeout: TIMEOUT_MS, maxBuffer: 64 * 1024 ** 2 },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new Error(describe(command, args, error, `${stdout}${stderr}`.trim())));
      },
    );
  });
}

function describe(command: string, args: readonly string[], error: Error, output: string): string {
  const name = basename(command);
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
    return `'${name}' is not on this machine; on Debian and Ubuntu it is in the package ${PACKAGES[name] ?? name}`;
  }
  return `'${[name, ...args].join(' ')}' failed:\n${output || error.message}`;
}
