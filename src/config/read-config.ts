// causeway.yaml → Config, or every mistake in it with its position: text → YAML → schema → cross-checks → warnings.
// Pure, and never throws; read-config-file.ts opens the file.

import type { z } from 'zod';
import type { Config } from './config.ts';
import { crossCheck } from './cross-check.ts';
import { byPlace, formatPath, formatPlace, type Mistake, type Path, type Positions } from './mistake.ts';
import { schema, toConfig } from './schema.ts';
import { warn } from './warnings.ts';
import { readYaml, type YamlText } from './yaml-text.ts';

export { formatMistake, type Mistake } from './mistake.ts';

export type ReadConfig =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly warnings: readonly Mistake[];
      /** Positions of keys whose values can fail later: listen addresses, and files. */
      readonly positions: Positions;
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

const EMPTY = 'the file is empty: it needs at least one address to listen on, such as  listen: [":6443"]';

/** `file` is the file's name in messages. Mistakes are in the order of the file. */
export function readConfig(text: string, file: string): ReadConfig {
  // Windows editors add a byte order mark, which does not count as a column.
  const yaml = readYaml(text.startsWith('\ufeff') ? text.slice(1) : text, file);
  if (yaml.data === null && yaml.mistakes.length === 0) {
    return { ok: false, mistakes: [{ line: 1, column: 1, path: '', text: EMPTY }] };
  }
  if (yaml.data === undefined && yaml.mistakes.length > 0) return { ok: false, mistakes: yaml.mistakes };

  const mistakes = collect(yaml, yaml.mistakes);
  const result = schema.safeParse(yaml.data);
  if (!result.success) for (const issue of result.error.issues) reportIssue(issue, mistakes.report);
  crossCheck(yaml.data, path => formatPlace(file, yaml.placeOf(path, 'value')), mistakes.report);
  if (!result.success || mistakes.found.length > 0)
    return { ok: false, mistakes: mistakes.found.toSorted(byPlace) };

  const config = toConfig(result.data);
  const warnings = collect(yaml, []);
  warn(config, warnings.report);
  const positions = new Map(
    canFailLater(config).map(path => [formatPath(path), yaml.placeOf(path, 'value')] as const),
  );
  return { ok: true, config, warnings: warnings.found.toSorted(byPlace), positions };
}

function canFailLater({ admin, identity, limits, listen, tunnel }: Config): Path[] {
  const pair = (path: Path): Path[] => [
    [...path, 'certFile'],
    [...path, 'keyFile'],
  ];
  return [
    ...listen.map((_, i) => ['listen', i]),
    ...(limits.connections === undefined ? [] : [['limits', 'connections']]),
    ...(identity === undefined ? [] : [['identity', 'secretFile']]),
    ...(admin.tls === undefined ? [] : pair(['admin', 'tls'])),
    ...(tunnel?.on === undefined ? [] : [['tunnel', 'on']]),
    ...(tunnel?.certificates.flatMap((_, i) => pair(['tunnel', 'certificates', i])) ?? []),
  ];
}

type ReportAt = (path: Path, text: string, at?: 'key' | 'value', named?: Path) => void;

/** Reports each mistake once, and none for a value that is already a YAML mistake. */
function collect(yaml: YamlText, known: readonly Mistake[]): { found: Mistake[]; report: ReportAt } {
  const found = [...known];
  const faulted = new Set(known.map(mistake => mistake.path));
  const reported = new Set<string>();
  const report: ReportAt = (path, text, at = 'value', named = path) => {
    const name = formatPath(named);
    if (reported.has(`${name}: ${text}`) || (at === 'value' && name !== '' && faulted.has(name))) return;
    reported.add(`${name}: ${text}`);
    found.push({ ...yaml.placeOf(path, at), path: name, text });
  };
  return { found, report };
}

/** The messages come from fields.ts; this adds their paths. */
function reportIssue(issue: z.core.$ZodIssue, report: ReportAt): void {
  const path = issue.path as Path;
  if (issue.code === 'unrecognized_keys') {
    const texts = issue.message.split('\n');
    for (const [i, key] of issue.keys.entries()) report([...path, key], texts[i], 'key', path);
  } else if (issue.code === 'invalid_key') {
    report(path, issue.issues[0].message, 'key');
  } else {
    report(path, issue.message);
  }
}
