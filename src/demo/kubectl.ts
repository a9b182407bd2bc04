// Runs kubectl, if installed, to its end or until it has printed enough. Its cache goes to the demo's folder: otherwise
// it would reuse the discovery data of these stand-ins for another server at the same address later.

import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Resolves with stdout, or rejects with stderr. `reported` is called with everything printed so far. */
export type Kubectl = (
  kubeconfig: string,
  args: readonly string[],
  signal: AbortSignal,
  reported?: (printed: string) => void,
) => Promise<string>;

/** The first kubectl on a PATH, or undefined. */
export function findKubectl(path: string): string | undefined {
  return path
    .split(delimiter)
    .filter(directory => directory !== '')
    .map(directory => join(directory, 'kubectl'))
    .find(isExecutable);
}

export function kubectlAt(program: string, cacheFolder: string): Kubectl {
  return (kubeconfig, args, signal, reported) =>
    new Promise((resolve, reject) => {
      const all = ['--kubeconfig', kubeconfig, '--cache-dir', cacheFolder, ...args];
      const child = spawn(program, all, { stdio: ['ignore', 'pipe', 'pipe'], signal });
      let printed = '';
      let errors = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        reported?.(printed);
      });
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        errors += text;
      });
      let failure: Error | undefined;
      child.once('error', error => {
        failure = error;
      });
      // Emitted after an error too, when nothing is left running.
      child.once('close', code => {
        if (code === 0) resolve(printed);
        else reject(failure ?? new Error(`kubectl ended with code ${code}: ${errors.trim()}`));
      });
    });
}

/** Runs a program that does not end on its own until it has printed enough, ends it, and returns its output. */
export async function untilPrinted(
  signal: AbortSignal,
  enough: (printed: string) => boolean,
  run: (signal: AbortSignal, reported: (printed: string) => void) => Promise<string>,
): Promise<string> {
  const end = new AbortController();
  let printed: string | undefined;
  try {
    return await run(AbortSignal.any([signal, end.signal]), text => {
      if (printed !== undefined || !enough(text)) return;
      printed = text;
      end.abort();
    });
  } catch (error) {
    if (printed === undefined) throw error;
    return printed;
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
