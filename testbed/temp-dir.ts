// A directory for one test: `await using dir = await tempDir()`.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TempDir extends AsyncDisposable {
  readonly path: string;
  /** Path of a file in it. */
  file(name: string): string;
}

/** A new directory, readable by this user only, and removed with its content. */
export async function tempDir(): Promise<TempDir> {
  const path = await mkdtemp(join(tmpdir(), 'causeway-'));
  return {
    path,
    file: name => join(path, name),
    // A program that was killed a moment ago may still be writing: retry on ENOTEMPTY.
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  };
}
