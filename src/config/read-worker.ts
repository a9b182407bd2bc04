// Entry point of a thread: reads and checks the files named in workerData, and posts the result.

import { flushCompileCache } from 'node:module';
import { platform, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { Cluster } from '../cluster/cluster.ts';
import { deltaOf } from './cluster-delta.ts';
import type { FollowedConfig } from './config-reader.ts';
import { KnownClusters } from './known-clusters.ts';
import type { ReadTask } from './read-aside.ts';
import type { ReadClusters } from './read-clusters.ts';
import { readClustersFile, readConfigFile, readConfigFileQuickly } from './read-config-file.ts';

/** A third of the share that other threads of a busy core get. */
const NICE = 5;

const task = workerData as ReadTask;
if (task.kind === 'follow') follow(task.file);
else post(task.kind === 'config' ? await readConfigFile(task.file) : await readAll(task.files));

function post(result: unknown): void {
  // Whoever gets the result ends the thread, in a way that does not do this.
  flushCompileCache();
  parentPort?.postMessage(result);
}

/** One after the other: a directory may have more files than a process may open. */
async function readAll(files: readonly string[]): Promise<readonly ReadClusters[]> {
  const read: ReadClusters[] = [];
  for (const file of files) read.push(await readClustersFile(file));
  return read;
}

/** Reads the file whenever it is asked to, until the thread is ended. */
function follow(file: string): void {
  // setpriority(2): on Linux it applies to the calling thread. Whatever moves bytes comes before an edit.
  if (platform() === 'linux') setPriority(NICE);
  const known = new KnownClusters();
  let sent: readonly Cluster[] = [];
  const readAgain = async (): Promise<FollowedConfig> => {
    const read = await readConfigFileQuickly(file, known);
    if (read === undefined) return sent.length > 0 ? undefined : { read: await readConfigFile(file) };
    const { clusters } = read.config;
    const delta = deltaOf(sent, clusters);
    sent = clusters;
    return { read: { ...read, config: { ...read.config, clusters: [] } }, delta };
  };
  parentPort?.on('message', () => void readAgain().then(post));
}
