// kubectl, where the machine has one: run to its end, or until it has printed enough. Its cache goes to a folder of the
// demo's own: by default it would keep what these stand-ins say for whatever else is at that address later.

import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Answers what it printed. Rejects with what it complained of. `told` hears all that was printed so far. */
export type Kubectl = (
  kubeconfig: string,
  args: readonly string[],
  signal: AbortSignal,
  reported?: (printed: string) => void,
) => Promise<string>;

/** The first on a PATH; undefined where there is none. */
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
      let complaint = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        reported?.(printed);
      });
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        complaint += text;
      });
      let failure: Error | undefined;
      child.once('error', error => {
        failure = error;
      });
      // It comes after an error too, and then nothing is left running.
      child.once('close', code => {
        if (code === 0) resolve(printed);
        else reject(failure ?? new Error(`kubectl ended with code ${code}: ${complaint.trim()}`));
      });
    });
}

/** What a program that does not end by itself has printed when that is enough; then it is ended. */
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
