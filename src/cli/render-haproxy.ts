// `causeway render haproxy`: what HAProxy cannot do goes to stderr; if that changes who reaches what, nothing is printed.

import type { Config } from '../config/config.ts';
import { formatMistake, mistakeAt, type Positions } from '../config/mistake.ts';
import {
  type HaproxyVersion,
  RENDERED,
  readHaproxyVersion,
  whyUnsupported,
} from '../haproxy/haproxy-version.ts';
import { renderHaproxy } from '../haproxy/render-haproxy.ts';
import { notRendered } from '../haproxy/unsupported.ts';
import { UsageError } from './command.ts';
import { printError } from './terminal.ts';

/** The version whose syntax is written. */
export function haproxyVersion(given: string | undefined): HaproxyVersion {
  if (given === undefined) return RENDERED;
  const version = readHaproxyVersion(given);
  if (version === undefined) throw new UsageError(`--haproxy-version must be like 2.6 or 3.0: ${given}`);
  const why = whyUnsupported(version);
  if (why !== undefined) throw new UsageError(`--haproxy-version: ${why}`);
  return version;
}

/** Undefined if the file is refused. */
export function haproxy(
  config: Config,
  file: string,
  version: HaproxyVersion,
  positions: Positions,
): string | undefined {
  const found = notRendered(config, version).map(({ path, text, isRefused }) => ({
    line: formatMistake(file, mistakeAt(positions, path, text)),
    isRefused,
  }));
  const refused = found.filter(({ isRefused }) => isRefused);
  printError(...found.map(({ line, isRefused }) => (isRefused ? line : `warning: ${line}`)));
  return refused.length > 0 ? undefined : renderHaproxy(config, file, version);
}
