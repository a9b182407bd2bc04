// Lines → sections, each with the lines of the `defaults` that it inherits (Configuration Manual, 4). Conditional blocks
// (.if) are not evaluated: their first branch is read.

import type { Fault, ImportFinding, Place } from '../imported.ts';
import type { Line } from './tokenize.ts';

/** The keywords that open a section, in all versions from 2.6 to 3.x. */
const SECTIONS = new Set([
  'global',
  'defaults',
  'frontend',
  'backend',
  'listen',
  'acme',
  'cache',
  'crt-store',
  'fcgi-app',
  'http-errors',
  'log-forward',
  'log-profile',
  'mailers',
  'peers',
  'program',
  'resolvers',
  'ring',
  'traces',
  'userlist',
]);
/** Lines. Far more than anybody writes; a chain of a thousand defaults must not fill the memory. */
const MAX_INHERITED = 300;
const MESSAGES = new Set(['.notice', '.warning', '.alert', '.diag']);

export interface Section {
  readonly kind: string;
  readonly name: string;
  readonly place: Place;
  readonly lines: readonly Line[];
  /** Lines of its defaults, which its own override. */
  readonly inherited: readonly Line[];
}

export interface Sections {
  readonly sections: readonly Section[];
  readonly findings: readonly ImportFinding[];
  readonly faults: readonly Fault[];
}

export function splitSections(lines: readonly Line[]): Sections {
  const findings: ImportFinding[] = [];
  const faults: Fault[] = [];
  const sections: (Section & { lines: Line[] })[] = [];
  const named = new Map<string, readonly Line[]>();
  let anonymous: readonly Line[] = [];
  let current: (Section & { lines: Line[] }) | undefined;
  const close = () => {
    if (current?.kind !== 'defaults') return;
    const all = [...current.inherited, ...current.lines].slice(-MAX_INHERITED);
    anonymous = all;
    if (current.name !== '') named.set(current.name, all);
  };
  for (const line of takenBranches(lines, findings)) {
    const [keyword, first, ...rest] = line.words;
    if (!SECTIONS.has(keyword.text)) {
      if (current !== undefined) current.lines.push(line);
      else if (faults.length === 0) faults.push({ place: line.place, text: outside(keyword.text) });
      continue;
    }
    close();
    const isDefaults = keyword.text === 'defaults';
    const words = first === undefined ? rest : [first, ...rest];
    const from = words.findIndex(word => word.text === 'from');
    const parent = from < 0 ? undefined : words[from + 1];
    const given = parent === undefined ? undefined : named.get(parent.text);
    if (parent !== undefined && given === undefined) {
      const text = `there is no defaults section '${parent.text}' above: HAProxy would refuse it`;
      findings.push({ place: parent.place, kind: 'warning', text });
    }
    const name = from === 0 ? '' : (first?.text ?? '');
    const inheritsAnonymous = !isDefaults && parent === undefined;
    current = {
      kind: keyword.text,
      name,
      place: line.place,
      lines: [],
      inherited: (inheritsAnonymous ? anonymous : given) ?? [],
    };
    sections.push(current);
  }
  close();
  return { sections, findings, faults };
}

function outside(keyword: string): string {
  return `'${keyword}' stands outside a section: a HAProxy configuration begins with global, defaults, frontend, backend or listen`;
}

function takenBranches(lines: readonly Line[], findings: ImportFinding[]): Line[] {
  const taken: Line[] = [];
  /** Of each open .if: whether its first branch is still being read. */
  const open: boolean[] = [];
  for (const line of lines) {
    const keyword = line.words[0].text;
    if (keyword === '.if') {
      open.push(true);
      findings.push({
        place: line.place,
        kind: 'warning',
        text: 'conditional blocks are not evaluated: the lines up to .elif, .else or .endif are read, the others are not',
      });
    } else if (keyword === '.elif' || keyword === '.else') {
      if (open.length > 0) open[open.length - 1] = false;
    } else if (keyword === '.endif') open.pop();
    else if (!MESSAGES.has(keyword) && open.every(isFirst => isFirst)) taken.push(line);
  }
  return taken;
}

/** The settings of a section by keyword: its own lines, or the inherited ones where it has none. */
export function linesOf(section: Section, ...keywords: readonly string[]): readonly Line[] {
  const has = (line: Line) => keywords.every((keyword, i) => line.words[i]?.text === keyword);
  const own = section.lines.filter(has);
  return own.length > 0 ? own : section.inherited.filter(has);
}

/** The last of them, which is the one that counts. */
export function lineOf(section: Section, ...keywords: readonly string[]): Line | undefined {
  return linesOf(section, ...keywords).at(-1);
}

/** `option x` is set and no later `no option x` takes it back. */
export function hasOption(section: Section, option: string): Line | undefined {
  let found: Line | undefined;
  for (const line of [...section.inherited, ...section.lines]) {
    const [first, second, third] = line.words.map(word => word.text);
    if (first === 'option' && second === option) found = line;
    if (first === 'no' && second === 'option' && third === option) found = undefined;
  }
  return found;
}

export function modeOf(section: Section): string {
  return lineOf(section, 'mode')?.words[1]?.text ?? 'tcp';
}
