// Entry point of a thread: reads and checks the files named in workerData, and posts the result.

import { parentPort, workerData } from 'node:worker_threads';
import type { ReadTask } from './read-aside.ts';
import { readClustersFile, readConfigFile } from './read-config-file.ts';

const task = workerData as ReadTask;
parentPort?.postMessage(
  task.kind === 'config'
    ? await readConfigFile(task.file)
    : await Promise.all(task.files.map(readClustersFile)),
);
