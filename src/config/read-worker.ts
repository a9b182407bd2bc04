// Entry point of a thread: reads and checks the files named in workerData, and posts the result.

import { flushCompileCache } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import type { ReadTask } from './read-aside.ts';
import type { ReadClusters } from './read-clusters.ts';
import { readClustersFile, readConfigFile } from './read-config-file.ts';

const task = workerData as ReadTask;
const result = task.kind === 'config' ? await readConfigFile(task.file) : await readAll(task.files);
// Whoever gets the result ends the thread, in a way that does not do this.
flushCompileCache();
parentPort?.postMessage(result);

/** One after the other: a directory may have more files than a process may open. */
async function readAll(files: readonly string[]): Promise<readonly ReadClusters[]> {
  const read: ReadClusters[] = [];
  for (const file of files) read.push(await readClustersFile(file));
  return read;
}
