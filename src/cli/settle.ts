// What a serving process does once, a moment after its start.

import { readFile, readlink } from 'node:fs/promises';
import { flushCompileCache } from 'node:module';
import { setFlagsFromString } from 'node:v8';

const MADV_DONTNEED = 4;
/**
 * How much heaps may grow before they are collected, in percent; by default it is several times as much. Each thread has a
 * copy of the table, and edits of a large file leave garbage in most of them. Not at the start, which it would slow down.
 */
const HEAP_GROWTH = 20;

interface Mapping {
  readonly from: bigint;
  readonly bytes: bigint;
}

export async function settle(): Promise<void> {
  // bin/causeway has Node keep what it compiles. A normal exit writes that to disk, but ours is another.
  flushCompileCache();
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH}`);
  await releaseMemory();
}

/**
 * Gives back what only the start needed: memory that malloc keeps, and most pages of Node's program file. Those stay in
 * the page cache, from where the ones that are needed again come back one by one, without reading the disk. Does nothing
 * where the C library has no such calls.
 */
async function releaseMemory(): Promise<void> {
  try {
    const { default: koffi } = await import('koffi');
    const libc = koffi.load('libc.so.6');
    libc.func('int malloc_trim(size_t)')(0);
    const madvise = libc.func('int madvise(uintptr_t, size_t, int)');
    const [smaps, program] = await Promise.all([
      readFile('/proc/self/smaps', 'utf8'),
      readlink('/proc/self/exe'),
    ]);
    for (const { from, bytes } of untouchedMappings(smaps, program)) madvise(from, bytes, MADV_DONTNEED);
  } catch {
    // Then it stays.
  }
}

/**
 * Read-only mappings of that file in which nothing is the process's own (proc(5), smaps: `Anonymous`), such as addresses
 * that were relocated: that would be lost. Linux lets nobody write to the file while it runs.
 */
export function untouchedMappings(smaps: string, file: string): readonly Mapping[] {
  return smaps.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).flatMap(entry => {
    const [, from, to, path] = /^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \d+ +(\S.*)$/m.exec(entry) ?? [];
    if (from === undefined || path !== file || !/^Anonymous: +0 kB$/m.test(entry)) return [];
    return [{ from: BigInt(`0x${from}`), bytes: BigInt(`0x${to}`) - BigInt(`0x${from}`) }];
  });
}
