// YAML text → a value of some schema, or every mistake in it with its position. Pure, and never throws.

import type { z } from 'zod';
import { byPlace, formatPath, formatPlace, type Mistake, type Path } from './mistake.ts';
import { type PlaceOf, readYaml, type YamlText } from './yaml-text.ts';

export interface DocumentKind<T> {
  readonly schema: z.ZodType<T>;
  /** The message for an empty file. */
  readonly empty: string;
  /** Checks that involve several keys. `placeOf` formats a position, such as causeway.yaml:7:15. */
  readonly check: (
    data: unknown,
    placeOf: (path: Path) => string,
    report: (path: Path, text: string) => void,
  ) => void;
}

export type ReadDocument<T> =
  | { readonly ok: true; readonly value: T; readonly yaml: YamlText }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** `file` is the file's name in messages. Mistakes are in the order of the file. */
export function readDocument<T>(text: string, file: string, kind: DocumentKind<T>): ReadDocument<T> {
  const yaml = readYaml(withoutMark(text), file);
  if (yaml.data === null && yaml.mistakes.length === 0) {
    return { ok: false, mistakes: [{ line: 1, column: 1, path: '', text: kind.empty }] };
  }
  if (yaml.data === undefined && yaml.mistakes.length > 0) return { ok: false, mistakes: yaml.mistakes };

  const mistakes = collect(yaml.placeOf, yaml.mistakes);
  const result = kind.schema.safeParse(yaml.data);
  if (!result.success) for (const issue of result.error.issues) reportIssue(issue, mistakes.report);
  kind.check(yaml.data, path => formatPlace(file, yaml.placeOf(path, 'value')), mistakes.report);
  if (!result.success || mistakes.found.length > 0)
    return { ok: false, mistakes: mistakes.found.toSorted(byPlace) };
  return { ok: true, value: result.data, yaml };
}

/** Windows editors add a byte order mark, which does not count as a column. */
function withoutMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}

type ReportAt = (path: Path, text: string, at?: 'key' | 'value', named?: Path) => void;

/** Reports each mistake once, and none for a value that is already a YAML mistake. */
export function collect(placeOf: PlaceOf, known: readonly Mistake[]): { found: Mistake[]; report: ReportAt } {
  const found = [...known];
  const faulted = new Set(known.map(mistake => mistake.path));
  const reported = new Set<string>();
  const report: ReportAt = (path, text, at = 'value', named = path) => {
    const name = formatPath(named);
    if (reported.has(`${name}: ${text}`) || (at === 'value' && name !== '' && faulted.has(name))) return;
    reported.add(`${name}: ${text}`);
    found.push({ ...placeOf(path, at), path: name, text });
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
