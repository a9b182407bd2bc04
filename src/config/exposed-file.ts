// Secrets, keys and passwords that others on the machine could read: a warning, with what to do.

import { stat } from 'node:fs/promises';

/** Anything for the group or for others. */
const FOR_OTHERS = 0o077;
const GROUP_READS = 0o040;
const ROOT = 0;

export interface ExposedFile {
  readonly file: string;
  /** As chmod takes it. */
  readonly mode: string;
  readonly fix: string;
}

/**
 * undefined where the file is not exposed, or is none: whoever reads it says so. `uid` is who we are. What belongs to
 * somebody else can be ours to read through its group alone, as a mounted Secret's (root's, with the Pod's fsGroup).
 */
export async function exposedFile(file: string, uid: number | undefined): Promise<ExposedFile | undefined> {
  const stats = await stat(file).catch(() => undefined);
  if (stats?.isFile() !== true) return undefined;
  const readsByGroup = uid !== undefined && uid !== ROOT && uid !== stats.uid;
  if ((stats.mode & FOR_OTHERS & ~(readsByGroup ? GROUP_READS : 0)) === 0) return undefined;
  const mode = (stats.mode & 0o777).toString(8).padStart(4, '0');
  return { file, mode, fix: `chmod 600 ${file}` };
}
