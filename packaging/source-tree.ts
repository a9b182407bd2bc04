// The checkout that is packaged: where it is, its version, and the time that its packages carry.

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { tool } from './tool.ts';

export const ROOT = resolve(import.meta.dirname, '..');
/** For what is downloaded. */
export const CACHE = join(ROOT, 'node_modules/.cache/causeway');

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly type: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

export const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
export const VERSION = manifest.version;

/**
 * In seconds since 1970, for every file of a package, so that two builds give the same bytes: $SOURCE_DATE_EPOCH
 * (reproducible-builds.org), else the time of the commit.
 */
export async function sourceDate(): Promise<number> {
  const given = process.env.SOURCE_DATE_EPOCH;
  if (given) return Number(given);
  const ofCommit = tool('git', ['log', '-1', '--format=%ct'], { cwd: ROOT });
  return ofCommit.then(Number, () => 0);
}
