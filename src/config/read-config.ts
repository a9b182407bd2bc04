// causeway.yaml → Config, or every mistake in it with its position: text → YAML → schema → cross-checks → warnings.
// Pure, and never throws; read-config-file.ts opens the file.

import { type AcceptedConfig, acceptConfig } from './accept-config.ts';
import { crossCheck } from './cross-check.ts';
import type { Mistake } from './mistake.ts';
import { readDocument } from './read-document.ts';
import { readQuickly } from './read-quickly.ts';
import { schema, toConfig } from './schema.ts';

export { formatMistake, type Mistake } from './mistake.ts';

export type ReadConfig = AcceptedConfig | { readonly ok: false; readonly mistakes: readonly Mistake[] };

const EMPTY = 'the file is empty: it needs at least one address to listen on, such as  listen: [":6443"]';

/** `file` is the file's name in messages. Mistakes are in the order of the file. */
export function readConfig(text: string, file: string): ReadConfig {
  return readQuickly(Buffer.from(text)) ?? readWithPositions(text, file);
}

/** The same for every file, and the only way that knows where a mistake is. */
export function readWithPositions(text: string, file: string): ReadConfig {
  const read = readDocument(text, file, { schema, empty: EMPTY, check: crossCheck });
  return read.ok ? acceptConfig(toConfig(read.value), read.yaml.placeOf) : read;
}
