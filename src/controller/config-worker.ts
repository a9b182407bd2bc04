// Entry point of a thread: reads and checks the file named in workerData, and posts the result.

import { parentPort, workerData } from 'node:worker_threads';
import { readConfigFile } from '../config/read-config-file.ts';

parentPort?.postMessage(await readConfigFile(workerData as string));
