// Archives with the same bytes from the same files: names sorted, one time, one owner, no trace of this machine.

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { tool } from './tool.ts';

export interface TarOptions {
  /** Seconds since 1970. */
  readonly date: number;
  /** The names in `folder` that go in, with all that is below them. */
  readonly names: readonly string[];
  readonly exclude?: readonly string[];
  /** User and group. Default: 0, root. */
  readonly owner?: number;
  /** Adds to an existing file. */
  readonly append?: boolean;
}

export async function tar(folder: string, file: string, options: TarOptions): Promise<void> {
  const { date, names, exclude = [], owner = 0, append = false } = options;
  await tool('tar', [
    append ? '--append' : '--create',
    `--file=${file}`,
    `--directory=${folder}`,
    '--format=gnu',
    '--sort=name',
    '--numeric-owner',
    `--owner=${owner}`,
    `--group=${owner}`,
    `--mtime=@${date}`,
    '--anchored',
    ...exclude.map(name => `--exclude=${name}`),
    ...names,
  ]);
}

/** Replaces the file by a compressed one of the same name with `.gz`. Without name and time, hence the same twice. */
export async function gzip(file: string): Promise<string> {
  await tool('gzip', ['-9', '--no-name', '--force', file]);
  return `${file}.gz`;
}

export async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

export async function sizeOf(file: string): Promise<number> {
  return (await stat(file)).size;
}
