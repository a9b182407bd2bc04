// The file as `run` reads it: mistakes and what this version cannot serve yet become one ConfigError.

import { Worker } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import { formatMistake } from '../config/mistake.ts';
import { notThereYet } from '../config/not-there-yet.ts';
import { type ReadConfigFile, readConfigFile } from '../config/read-config-file.ts';
import { ConfigError } from './config-error.ts';

/** Flags of the command line that stand above the file. */
export type Overrides = Partial<Pick<Config, 'engine' | 'workers'>>;

export async function loadConfig(file: string, overrides: Overrides): Promise<Config> {
  return judge(file, overrides, await readConfigFile(file));
}

/** In a thread of its own: a large file takes seconds to parse, and the control thread has other things to do. */
export async function loadConfigAside(file: string, overrides: Overrides): Promise<Config> {
  const entry = new URL(
    import.meta.url.endsWith('.ts') ? './config-worker.ts' : './config-worker.js',
    import.meta.url,
  );
  const worker = new Worker(entry, { workerData: file, name: 'causeway-config' });
  try {
    const read = await new Promise<ReadConfigFile>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
      worker.once('exit', () => reject(new Error('The thread that reads the file ended without an answer')));
    });
    return judge(file, overrides, read);
  } finally {
    await worker.terminate();
  }
}

function judge(file: string, overrides: Overrides, read: ReadConfigFile): Config {
  if (!read.ok) throw new ConfigError(read.mistakes.map(mistake => formatMistake(file, mistake)));
  const config = { ...read.config, ...overrides };
  const { refused } = notThereYet(config);
  if (refused.length > 0)
    throw new ConfigError([`${file}: this version does not have ${refused.join(', ')} yet`]);
  return config;
}
