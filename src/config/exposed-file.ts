// Finds secrets, keys and passwords that other local users could read, for a warning that says what to do.

import { stat } from 'node:fs/promises';

/** Any permission for the group or for others. */
const FOR_OTHERS = 0o077;
const GROUP_READS = 0o040;
const ROOT = 0;

export interface ExposedFile {
  readonly file: string;
  /** Octal, as chmod takes it. */
  readonly mode: string;
  readonly fix: string;
}

/**
 * Undefined if the file is not exposed, or is not a file (its reader reports that). `uid` is our own user. We may be
 * able to read another user's file only through its group, as with a mounted Secret (owned by root, with the Pod's
 * fsGroup), so group read is allowed there.
 */
export async function exposedFile(file: string, uid: number | undefined): Promise<ExposedFile | undefined> {
  const stats = await stat(file).catch(() => undefined);
  if (stats?.isFile() !== true) return undefined;
  const readsByGroup = uid !== undefined && uid !== ROOT && uid !== stats.uid;
  if ((stats.mode & FOR_OTHERS & ~(readsByGroup ? GROUP_READS : 0)) === 0) return undefined;
  const mode = (stats.mode & 0o777).toString(8).padStart(4, '0');
  return { file, mode, fix: `chmod 600 ${file}` };
}
