// A directory for the length of one test: `await using dir = await tempDir()`.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TempDir extends AsyncDisposable {
  readonly path: string;
  /** The path of a file in it. */
  file(name: string): string;
}

/** A new directory, readable by this user only, removed with all that is in it. */
export async function tempDir(): Promise<TempDir> {
  const path = await mkdtemp(join(tmpdir(), 'causeway-'));
  return {
    path,
    file: name => join(path, name),
    // A program that was killed a moment ago may still have been writing: try again on ENOTEMPTY.
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  };
}
