// Opens files for readConfig() and readClusters(), with care: a path may name anything, and a running gateway rereads
// them on every change. Errors of the file system are reported like mistakes in the file.

import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { AcceptedConfig } from './accept-config.ts';
import type { KnownClusters } from './known-clusters.ts';
import { type Mistake, NOWHERE } from './mistake.ts';
import { type ReadClusters, readClusters } from './read-clusters.ts';
import { type ReadConfig, readConfig } from './read-config.ts';
import { readQuickly } from './read-quickly.ts';

/**
 * 10,000 clusters with ten hosts each take 5 MiB. Parsing with positions needs about a hundred times the file size in
 * memory, so a larger file could run the process out of memory.
 */
const MAX_BYTES = 16 * 2 ** 20;
/** Of a file in a directory, which others may write: 2,000 clusters. */
const MAX_CLUSTERS_BYTES = 2 ** 20;

const DECLINED = { ok: false } as const;

/** Why the file could not be read; stable, so that callers can rely on it. */
export type UnreadableCode =
  | 'missing'
  | 'no-permission'
  | 'not-a-file'
  | 'too-large'
  | 'binary'
  | 'unreadable';

export type ReadConfigFile = ReadConfig | Unreadable;

interface Unreadable {
  readonly ok: false;
  readonly mistakes: readonly Mistake[];
  readonly code: UnreadableCode;
}

/** Never rejects. */
export function readConfigFile(path: string): Promise<ReadConfigFile> {
  return readFileAs(path, MAX_BYTES, (bytes, file) => readConfig(bytes.toString(), file));
}

/** Only if it can be read without positions; undefined otherwise. Never rejects. */
export async function readConfigFileQuickly(
  path: string,
  known: KnownClusters,
): Promise<AcceptedConfig | undefined> {
  const read = await readFileAs(path, MAX_BYTES, bytes => readQuickly(bytes, known) ?? DECLINED);
  return read.ok ? read : undefined;
}

/**
 * A file of the directory source. Never rejects. Symlinks may lead anywhere inside its directory, as in a mounted
 * ConfigMap, but not out of it: messages quote what they find, and the directory's writers may not read all that we can.
 */
export function readClustersFile(path: string): Promise<ReadClusters> {
  const parse = (bytes: Buffer, file: string) => readClusters(bytes.toString(), file);
  return readFileAs(path, MAX_CLUSTERS_BYTES, parse, dirname(path));
}

async function readFileAs<T>(
  path: string,
  maxBytes: number,
  parse: (bytes: Buffer, path: string) => T,
  directory?: string,
): Promise<T | Unreadable> {
  let handle: FileHandle;
  try {
    // Without O_NONBLOCK, opening a named pipe that nobody writes to never returns.
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    return unopened(error);
  }
  try {
    if (directory !== undefined && !(await isWithin(handle, path, directory))) return outside;
    const bytes = await readBytes(handle, maxBytes);
    return 'code' in bytes ? bytes : (notText(bytes) ?? parse(bytes, path));
  } catch (error) {
    return unopened(error);
  } finally {
    await handle.close();
  }
}

/** The file that was opened, not the one that the path leads to by now. */
async function isWithin(handle: FileHandle, path: string, directory: string): Promise<boolean> {
  const opened = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => realpath(path));
  return opened.startsWith(join(await realpath(directory), sep));
}

async function readBytes(handle: FileHandle, maxBytes: number): Promise<Buffer | Unreadable> {
  const stats = await handle.stat();
  if (stats.isDirectory()) return unreadable('not-a-file', 'must be a file: this is a directory');
  if (!stats.isFile())
    return unreadable('not-a-file', 'must be a regular file: this is a device, pipe or socket');
  if (stats.size > maxBytes) {
    const size = `${Math.ceil(stats.size / 2 ** 20)} MiB`;
    return unreadable('too-large', `must be at most ${maxBytes / 2 ** 20} MiB: this file is ${size}`);
  }
  return handle.readFile();
}

function notText(bytes: Buffer): Unreadable | undefined {
  if (bytes.includes(0))
    return unreadable('binary', 'must be a text file: this file contains NUL bytes (is it UTF-16?)');
  if (!isUtf8(bytes)) return unreadable('binary', 'must be UTF-8 text: this file contains other bytes');
  return undefined;
}

function unopened(error: unknown): Unreadable {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'ENOENT':
      return unreadable('missing', 'there is no such file');
    case 'ENOTDIR':
      return unreadable('missing', 'there is no such file: a part of its path is not a directory');
    case 'EACCES':
    case 'EPERM':
      return unreadable(
        'no-permission',
        'permission denied: check the permissions of the file and its directory',
      );
    case 'EISDIR':
      return unreadable('not-a-file', 'must be a file: this is a directory');
    case 'ENXIO':
      return unreadable('not-a-file', 'must be a regular file: this is a device, pipe or socket');
    default:
      return unreadable('unreadable', `cannot be read: ${code ?? String(error)}`);
  }
}

function unreadable(code: UnreadableCode, text: string): Unreadable {
  return { ok: false, code, mistakes: [{ ...NOWHERE, path: '', text }] };
}

const outside = unreadable('not-a-file', 'is a link out of its directory: put the file itself there');
