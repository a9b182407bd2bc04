// The rules of the tree as a function of its sources: permitted imports, use of `process`, names of files
// (ARCHITECTURE.md). architecture.test.ts applies them to the repository.

import { posix } from 'node:path';
import { blankLiterals } from './blank-literals.ts';

/** Our folders that a folder of src may import, besides itself. Unlisted folders may import any. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  wire: [],
  cluster: [],
  text: [],
  plan: ['cluster'],
  identity: ['wire'],
  sources: ['cluster', 'config', 'kube', 'text', 'wire'],
  outputs: ['cluster', 'config', 'kube', 'plan', 'text', 'wire'],
  import: ['cluster', 'config', 'text', 'wire'],
};
/** Folders that a folder must not import, even indirectly. */
const NEVER_REACHES: Readonly<Record<string, readonly string[]>> = { gateway: ['kube'] };
/** Files that may use `process`: arguments, environment, signals, exit codes. Others get parameters. */
const PROCESS_FOLDERS = ['cli', 'main.ts'];

const IMPORT =
  /\b(?:from|import)\s*\(?\s*(['"])([^'"\n]+)\1|\bnew\s+URL\(\s*(['"])(\.[^'"\n]+)\3\s*,\s*import\.meta\.url/g;
/** Neither `import type`, nor one of types only. */
const STATIC_IMPORT =
  /^(?:import|export) (?!type\b)(?!\{(?:\s*type [^,}]+,?)+\s*\})(?:[^;']*? from )?'([^'\n]+)';$/gm;
/** Also of types. Neither `import()`, nor the file of a thread. */
const ANY_STATIC_IMPORT = /^(?:import|export) (?:[^;']*? from )?'(\.[^'\n]+)';$/gm;
const PROCESS = /(?<![\w$.#])process\s*(?:\.(?!\.)|\?\.|\[)|\bglobalThis\.process\b/;
/**
 * Folders in which an exception in a callback would end a thread with all its connections: an inline function in such a
 * call must go through safely(), or do nothing.
 */
const GUARDED = /^src\/gateway\/(?:streams\/|health\/check-backend)/;
const CALLBACK =
  /(?:\.(?:on|once|prependListener|addEventListener)\(\s*'[^']*',|\bset(?:Timeout|Immediate)\()\s*(?:async\s+)?(?:\([^()]*\)|\w+)\s*=>(?!\s*(?:\{\}|safely\())/;
const DEFAULT_EXPORT = /\bexport\s+default\b|\bas\s+default\b/;

const KEBAB_CASE = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9-]+)*\.(?:ts|mjs)$/;
const VAGUE = new Set(['util', 'utils', 'helper', 'helpers', 'misc', 'manager', 'common']);
/** The only default export that Node requires: a test reporter. */
const DEFAULT_EXPORT_ALLOWED = new Set(['scripts/test-events.ts']);

/** Violations as `path: message`. Takes sources by their path from the root. */
export function architectureOffences(sources: ReadonlyMap<string, string>): string[] {
  const offences: string[] = [];
  const imports = new Map<string, string[]>();
  for (const [path, source] of sources) {
    const { code, withStrings } = blankLiterals(source);
    const own = importsOf(path, withStrings);
    imports.set(path, own);
    const reported = [
      ...nameOffences(path),
      ...importOffences(path, own),
      ...codeOffences(path, code, withStrings),
    ];
    offences.push(...reported.map(sentence => `${path}: ${sentence}`));
  }
  offences.push(...reachOffences(imports), ...circleOffences(sources));
  return offences;
}

function nameOffences(path: string): string[] {
  const offences: string[] = [];
  if (!KEBAB_CASE.test(posix.basename(path))) offences.push('its name is not in kebab case');
  const vague = path.split(/[/.-]/).find(word => VAGUE.has(word));
  if (vague !== undefined) offences.push(`'${vague}' says nothing: name it for what it does`);
  return offences;
}

function importOffences(path: string, imports: readonly string[]): string[] {
  if (path.startsWith('dashboard/') && !isTest(path)) {
    return imports
      .filter(target => !target.startsWith('dashboard/'))
      .map(target => `imports '${target}', but the dashboard runs in a browser, by itself`);
  }
  if (!path.startsWith('src/')) return [];
  const folder = folderOf(path);
  const outside = isTest(path)
    ? []
    : imports
        .filter(target => !target.startsWith('src/'))
        .map(target => `imports '${target}', which is not of the program`);
  const allowed = MAY_IMPORT[folder];
  if (allowed === undefined) return outside;
  const foreign = imports.filter(
    target => target.startsWith('src/') && folderOf(target) !== folder && !allowed.includes(folderOf(target)),
  );
  const rule = allowed.length === 0 ? 'nothing of ours' : `only ${allowed.join(', ')}`;
  return [...outside, ...foreign.map(target => `imports '${target}', but ${folder} imports ${rule}`)];
}

function codeOffences(path: string, code: string, withStrings: string): string[] {
  const offences: string[] = [];
  if (DEFAULT_EXPORT.test(code) && !DEFAULT_EXPORT_ALLOWED.has(path)) offences.push('has a default export');
  if (GUARDED.test(path) && !isTest(path) && CALLBACK.test(withStrings))
    offences.push('has a callback that is not guarded: what throws there would end the thread');
  if (!path.startsWith('src/') || isTest(path) || PROCESS_FOLDERS.includes(folderOf(path))) return offences;
  const specifiers = [...withStrings.matchAll(IMPORT)].map(match => match[2]);
  if (PROCESS.test(code) || specifiers.includes('node:process') || specifiers.includes('process')) {
    offences.push('touches process, which is for cli and main.ts');
  }
  return offences;
}

function reachOffences(imports: ReadonlyMap<string, readonly string[]>): string[] {
  return [...imports.keys()].flatMap(path => {
    const forbidden = path.startsWith('src/') ? (NEVER_REACHES[folderOf(path)] ?? []) : [];
    const way = forbidden.length === 0 ? undefined : wayTo(path, forbidden, imports);
    return way === undefined
      ? []
      : [`${path}: reaches ${folderOf(way.at(-1) as string)} by ${way.join(' > ')}`];
  });
}

/** Files that import each other, types included: each circle once. */
function circleOffences(sources: ReadonlyMap<string, string>): string[] {
  const offences: string[] = [];
  const done = new Set<string>();
  const follow = (path: string, way: readonly string[]): void => {
    const at = way.indexOf(path);
    if (at >= 0) offences.push(`${path}: imports itself by ${[...way.slice(at), path].join(' > ')}`);
    if (at >= 0 || done.has(path)) return;
    for (const [, specifier] of (sources.get(path) ?? '').matchAll(ANY_STATIC_IMPORT))
      follow(posix.join(posix.dirname(path), specifier), [...way, path]);
    done.add(path);
  };
  for (const path of sources.keys()) if (path.startsWith('src/')) follow(path, []);
  return offences;
}

/** The shortest chain of imports from a file into one of the folders. */
function wayTo(
  from: string,
  folders: readonly string[],
  imports: ReadonlyMap<string, readonly string[]>,
): string[] | undefined {
  const seen = new Set([from]);
  const ways = [[from]];
  for (const way of ways) {
    for (const target of imports.get(way.at(-1) as string) ?? []) {
      if (seen.has(target)) continue;
      seen.add(target);
      ways.push([...way, target]);
      if (target.startsWith('src/') && folders.includes(folderOf(target))) return ways.at(-1);
    }
  }
  return undefined;
}

/** Everything that is loaded with that file, of ours and of others: what it imports by itself, without types. */
export function loadedWith(entry: string, sources: ReadonlyMap<string, string>): string[] {
  const loaded = new Set([entry]);
  for (const path of loaded) {
    for (const [, specifier] of (sources.get(path) ?? '').matchAll(STATIC_IMPORT)) {
      const target = specifier.startsWith('.') ? posix.join(posix.dirname(path), specifier) : specifier;
      if (!target.startsWith('node:')) loaded.add(target);
    }
  }
  return [...loaded];
}

/** Our files that a file imports, including types, or starts as a worker, by path from the root. */
function importsOf(path: string, withStrings: string): string[] {
  return [...withStrings.matchAll(IMPORT)]
    .map(match => match[2] ?? match[4])
    .filter(specifier => specifier?.startsWith('.') && /\.(?:ts|mjs)$/.test(specifier))
    .map(specifier => posix.join(posix.dirname(path), specifier as string));
}

/** `src/gateway/io/x.ts` → `gateway`; `src/main.ts` → `main.ts`. */
function folderOf(path: string): string {
  return path.split('/')[1] as string;
}

/** Tests and their helpers: `x.test.ts`, `x.samples.ts`, `x.test-worker.ts`, contract suites. */
function isTest(path: string): boolean {
  return /\.(?:test|samples|test-worker|contract)\.ts$/.test(path) || path.includes('/contract/');
}
