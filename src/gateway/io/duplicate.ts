// Duplicates a descriptor, which Node cannot do. Linux only; imported where it is needed, since koffi may be missing.

import { F_DUPFD_CLOEXEC, loadLibc } from './libc.ts';

/** Throws if the descriptor is not open or the process has no room for another. */
export function duplicate(descriptor: number): number {
  const libc = loadLibc();
  const copy = libc.fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw new Error(`Cannot duplicate descriptor ${descriptor}: errno ${libc.errno()}`);
  return copy;
}
