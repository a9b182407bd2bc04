// Reads files in a thread of its own: parsing a large file takes seconds and would block the control thread.

import { Worker } from 'node:worker_threads';
import { threadEntry } from '../program-file.ts';
import type { ReadClusters } from './read-clusters.ts';
import type { ReadConfigFile } from './read-config-file.ts';

/** For young objects: a small file needs no more, and a large one is read only a little faster with more. */
const YOUNG_MIB = 6;

/** What the thread is asked to read: one causeway.yaml, the same again and again, or files of a directory. */
export type ReadTask =
  | { readonly kind: 'config'; readonly file: string }
  | { readonly kind: 'follow'; readonly file: string }
  | { readonly kind: 'clusters'; readonly files: readonly string[] };

export async function readConfigAside(file: string): Promise<ReadConfigFile> {
  return (await inThread({ kind: 'config', file })) as ReadConfigFile;
}

/** In the order of `files`. */
export async function readClustersAside(files: readonly string[]): Promise<readonly ReadClusters[]> {
  return (await inThread({ kind: 'clusters', files })) as readonly ReadClusters[];
}

async function inThread(task: ReadTask): Promise<unknown> {
  const worker = startReading(task);
  try {
    return await nextMessage(worker);
  } finally {
    await worker.terminate();
  }
}

export function startReading(task: ReadTask): Worker {
  return new Worker(threadEntry('config/read-worker'), {
    workerData: task,
    name: 'causeway-config',
    // V8 keeps the memory of a thread that has ended for a while, for others.
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB },
  });
}

/** Rejects if the thread ends instead. */
export async function nextMessage(worker: Worker): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const ended = () => reject(new Error('The thread that reads the file ended without a result'));
  worker.once('message', resolve).once('error', reject).once('exit', ended);
  try {
    return await promise;
  } finally {
    worker.off('message', resolve).off('error', reject).off('exit', ended);
  }
}
