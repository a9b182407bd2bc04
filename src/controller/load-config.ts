// Reads the file for `run`: mistakes and features that this version lacks become one ConfigError.

import type { Config } from '../config/config.ts';
import type { ConfigReader } from '../config/config-reader.ts';
import { formatMistake, type Mistake, mistakeAt, type Positions } from '../config/mistake.ts';
import type { ReadConfigFile } from '../config/read-config-file.ts';
import { ConfigError } from './config-error.ts';
import { judgeFiles } from './named-files.ts';

/** Command line flags that override the file. */
export type Overrides = Partial<Pick<Config, 'engine' | 'workers' | 'runDir'>>;

export interface LoadedConfig {
  readonly config: Config;
  readonly positions: Positions;
}

/** In another thread: the schemas and the YAML parser take 20 MiB, and parsing a large file would block this one. */
export async function loadConfig(
  file: string,
  overrides: Overrides,
  reader: ConfigReader,
): Promise<LoadedConfig> {
  return judge(file, overrides, await reader.read().catch(() => readHere(file)));
}

/** Where the system cannot create another thread, the mistakes in the file are still reported. */
async function readHere(file: string): Promise<ReadConfigFile> {
  const { readConfigFile } = await import('../config/read-config-file.ts');
  return readConfigFile(file);
}

/** Reads the successor of `served`. */
export async function reloadConfig(
  file: string,
  overrides: Overrides,
  reader: ConfigReader,
  served: Config,
): Promise<LoadedConfig> {
  return judge(file, overrides, await reader.read(), served);
}

async function judge(
  file: string,
  overrides: Overrides,
  read: ReadConfigFile,
  served?: Config,
): Promise<LoadedConfig> {
  if (!read.ok) throw refused(file, read.mistakes);
  const config = { ...read.config, ...overrides };
  const mistakes = [
    ...(await judgeFiles(file, config, read.positions, served)),
    ...(config.engine === 'haproxy' ? await refusedByHaproxy(config, read.positions) : []),
  ];
  if (mistakes.length > 0) throw refused(file, mistakes);
  return { config, positions: read.positions };
}

/** Loaded only where it is needed. */
async function refusedByHaproxy(config: Config, positions: Positions): Promise<readonly Mistake[]> {
  const { unsupportedByHaproxy } = await import('../haproxy/unsupported.ts');
  return unsupportedByHaproxy(config)
    .filter(({ isRefused }) => isRefused)
    .map(({ path, text }) => mistakeAt(positions, path, text));
}

function refused(file: string, mistakes: readonly Mistake[]): ConfigError {
  return new ConfigError(mistakes.map(mistake => formatMistake(file, mistake)));
}
