// ACLs and conditions (Configuration Manual, 7): `acl NAME …`, `{ … }`, `if`, `unless`, `or`, `!`. A condition is
// evaluated for a connection whose host, id and port are known, see verdict.ts.

import { parseCidr } from '../../wire/ip-address.ts';
import { append } from '../append.ts';
import { type HostMethod, type HostSet, hostMethods, hostSet, wildcardSet } from '../host-set.ts';
import type { Place } from '../imported.ts';
import {
  type ExpressionContext,
  type HostMap,
  type MapEntry,
  patternLines,
  readSubject,
  type Subject,
} from './expression.ts';
import type { Line, Word } from './tokenize.ts';
import { and, clients, not, or, type Verdict } from './verdict.ts';

/** A connection of which the rules are asked. */
export interface Connection {
  readonly protocol: 'tls' | 'http';
  /** Lower case; undefined without SNI or Host. */
  readonly host: string | undefined;
  readonly id: string | undefined;
  readonly port: number;
}

/** One line of an ACL, or one in braces. */
export interface Atom {
  readonly place: Place;
  /** As written, for messages. */
  readonly text: string;
  readonly subject: Subject;
  readonly hostSets: readonly NamedSet[];
  readonly ids: readonly string[];
  evaluate(connection: Connection): Verdict;
}

/** A set of hosts, and where it is written. */
export interface NamedSet extends HostSet {
  readonly place: Place;
  readonly text: string;
}

interface Literal {
  readonly atoms: readonly Atom[];
  readonly isNegated: boolean;
}

export interface Condition {
  /** Any of them, of each all. */
  readonly terms: readonly (readonly Literal[])[];
  readonly isUnless: boolean;
}

export const ALWAYS: Condition = { terms: [[]], isUnless: false };

/** ACLs of names that every configuration has, and what they mean for us. */
const PREDEFINED: Readonly<Record<string, string>> = {
  TRUE: 'always_true',
  FALSE: 'always_false',
  WAIT_END: 'always_true',
  LOCALHOST: 'src 127.0.0.0/8 ::1',
};

export interface AclContext extends ExpressionContext {
  /** By name; a name may have several lines. */
  readonly acls: ReadonlyMap<string, readonly Atom[]>;
  /** Reports a word that names nothing. */
  unknown(place: Place, text: string): void;
}

/** `acl NAME expression…`, without the first two words. */
function readAtom(words: readonly Word[], place: Place, context: AclContext): Atom {
  const text = words.map(word => word.text).join(' ');
  const [expression, ...rest] = words;
  const { subject, method: implied } = readSubject(expression?.text ?? '', context);
  const flags = readFlags(rest, context);
  const method = flags.method ?? implied ?? 'str';
  const values = flags.values;
  const base = { place, text, hostSets: [], ids: [] as string[] };
  const name = (expression?.text ?? '').toLowerCase();
  // Only TLS gets as far as these.
  if (/^req[._]ssl_hello_type$/.test(name))
    return {
      ...base,
      subject: { kind: 'constant', value: true },
      evaluate: ({ protocol }) => (protocol === 'tls' && values[0] === '1' ? 'yes' : 'no'),
    };
  if (subject.kind === 'other' || flags.isUnreadable || method === 'other')
    return { ...base, subject: { kind: 'other', text }, evaluate: () => 'unknown' };
  if (subject.kind === 'constant') {
    // `ssl_fc` as a boolean, or compared with 0 or 1.
    const holds = values.length === 0 ? subject.value : values.includes(subject.value ? '1' : '0');
    return { ...base, subject, evaluate: () => (holds ? 'yes' : 'no') };
  }
  if (subject.kind === 'src') {
    const cidrs = values.map(toCidr);
    const readable = cidrs.filter(cidr => cidr !== undefined);
    const verdict = readable.length === cidrs.length ? clients(readable) : 'unknown';
    return { ...base, subject, evaluate: () => verdict };
  }
  if (subject.kind === 'port') return { ...base, subject, evaluate: ({ port }) => isPortIn(port, values) };
  if (subject.kind === 'id') {
    const ids =
      subject.map === undefined ? values : entriesOf(subject.map, method, values).map(({ key }) => key);
    const isFound = method === 'found' && subject.map === undefined;
    const sees = (id: string) => ids.includes(id) || (flags.ignoreCase && ids.some(one => same(one, id)));
    const evaluate = ({ id }: Connection): Verdict =>
      id !== undefined && (isFound || sees(id)) ? 'yes' : 'no';
    const readable = isFound || method === 'str' || subject.map !== undefined;
    return { ...base, subject, ids, evaluate: readable ? evaluate : () => 'unknown' };
  }
  return hostAtom(base, subject, method, values, flags.ignoreCase);
}

function hostAtom(
  base: { place: Place; text: string },
  subject: Subject & { kind: 'sni' | 'host-header' },
  method: HostMethod | 'found',
  values: readonly string[],
  ignoreCase: boolean,
): Atom {
  const { map } = subject;
  const isHere = ({ protocol, host }: Connection) =>
    host !== undefined && protocol === (subject.kind === 'sni' ? 'tls' : 'http') ? host : undefined;
  // Other methods would see the star.
  if (subject.isWildcard === true && (map?.method ?? method) !== 'str' && method !== 'found')
    return {
      ...base,
      subject: { kind: 'other', text: base.text },
      hostSets: [],
      ids: [],
      evaluate: () => 'unknown',
    };
  if (method === 'found' && map === undefined)
    return {
      ...base,
      subject,
      hostSets: [],
      ids: [],
      evaluate: connection => (isHere(connection) === undefined ? 'no' : 'yes'),
    };
  const hostSets =
    map === undefined
      ? values.map(value => ({ ...base, ...setOf(subject, method as HostMethod, value, ignoreCase) }))
      : entriesOf(map, method, values).map(entry => mapSet(subject, map, entry));
  const isUnreadable = hostSets.some(set => set.isUnreadable);
  // A map may have thousands of names.
  const exact = new Set((map?.method ?? method) === 'str' ? hostSets.flatMap(set => set.exact ?? []) : []);
  const others = exact.size > 0 ? [] : hostSets;
  const evaluate = (connection: Connection): Verdict => {
    const host = isHere(connection);
    if (host === undefined) return 'no';
    if (exact.has(host) || others.some(set => set.has(host))) return 'yes';
    // A regular expression that could not be read may match anything.
    return isUnreadable ? 'unknown' : 'no';
  };
  return { ...base, subject, hostSets, ids: [], evaluate };
}

/** The entries of a map whose values match. */
function entriesOf(
  map: HostMap,
  method: HostMethod | 'found',
  values: readonly string[],
): readonly MapEntry[] {
  return map.entries.filter(({ value }) => method === 'found' || values.includes(value));
}

export function mapSet(subject: Subject, map: HostMap, { key, place }: MapEntry): NamedSet {
  return { place, text: key, ...setOf(subject, map.method, key, false) };
}

function setOf(subject: Subject, method: HostMethod, text: string, ignoreCase: boolean): HostSet {
  const isWildcard = 'isWildcard' in subject && subject.isWildcard === true;
  return isWildcard && method === 'str' ? wildcardSet(text) : hostSet(method, text, ignoreCase);
}

interface Flags {
  readonly ignoreCase: boolean;
  readonly method: HostMethod | 'found' | 'other' | undefined;
  readonly values: readonly string[];
  /** A file that cannot be read. */
  readonly isUnreadable: boolean;
}

function readFlags(words: readonly Word[], context: AclContext): Flags {
  let ignoreCase = false;
  let isUnreadable = false;
  let method: Flags['method'];
  let isOver = false;
  const values: string[] = [];
  for (let i = 0; i < words.length; i++) {
    const { text } = words[i];
    const argument = words[i + 1]?.text ?? '';
    if (isOver || !/^-[a-zA-Z-]$/.test(text)) {
      isOver = true;
      values.push(text);
    } else if (text === '--') isOver = true;
    else if (text === '-i') ignoreCase = true;
    else if (text === '-m') {
      method = argument === 'found' ? 'found' : (hostMethods.find(one => one === argument) ?? 'other');
      i++;
    } else if (text === '-f') {
      const content = context.surroundings.readFile(argument.replace(/^(?:opt|file)@/, ''));
      if (content === undefined) isUnreadable = true;
      else
        append(
          values,
          patternLines(argument, content).map(line => line.text),
        );
      i++;
    } else if (text === '-u') i++;
  }
  return { ignoreCase, method, values, isUnreadable };
}

/** The condition at the end of a line, from `if` or `unless` on; always without one. */
export function readCondition(words: readonly Word[], context: AclContext): Condition {
  const start = words.findIndex(({ text }) => text === 'if' || text === 'unless');
  if (start < 0) return ALWAYS;
  const terms: Literal[][] = [[]];
  let isNegated = false;
  for (let i = start + 1; i < words.length; i++) {
    let { text } = words[i];
    if (text === 'or' || text === '||') {
      terms.push([]);
      continue;
    }
    while (text.startsWith('!')) {
      isNegated = !isNegated;
      text = text.slice(1);
    }
    if (text === '') continue;
    let atoms: readonly Atom[] | undefined;
    if (text === '{') {
      const end = words.findIndex((word, at) => at > i && word.text === '}');
      const inner = words.slice(i + 1, end < 0 ? words.length : end);
      if (inner.length > 0) atoms = [readAtom(inner, inner[0].place, context)];
      i = end < 0 ? words.length : end;
    } else {
      atoms = context.acls.get(text) ?? predefined(text, words[i].place, context);
      if (atoms === undefined)
        context.unknown(words[i].place, `there is no ACL '${text}': HAProxy would refuse it`);
    }
    terms[terms.length - 1].push({ atoms: atoms ?? [UNKNOWN(words[i].place, text)], isNegated });
    isNegated = false;
  }
  return { terms, isUnless: words[start].text === 'unless' };
}

function predefined(name: string, place: Place, context: AclContext): readonly Atom[] | undefined {
  const text = PREDEFINED[name];
  if (text === undefined)
    return /^(HTTP|METH_|REQ_CONTENT|RDP_)/.test(name) ? [UNKNOWN(place, name)] : undefined;
  return [
    readAtom(
      text.split(' ').map(word => ({ text: word, place })),
      place,
      context,
    ),
  ];
}

function UNKNOWN(place: Place, text: string): Atom {
  return { place, text, subject: { kind: 'other', text }, hostSets: [], ids: [], evaluate: () => 'unknown' };
}

export function evaluate(condition: Condition, connection: Connection): Verdict {
  let any: Verdict = 'no';
  for (const term of condition.terms) {
    let all: Verdict = 'yes';
    for (const { atoms, isNegated } of term) {
      const verdict = atoms.reduce<Verdict>((sum, atom) => or(sum, atom.evaluate(connection)), 'no');
      all = and(all, isNegated ? not(verdict) : verdict);
    }
    any = or(any, all);
  }
  return condition.isUnless ? not(any) : any;
}

export function atomsOf(condition: Condition): readonly Atom[] {
  return condition.terms.flatMap(term => term.flatMap(literal => literal.atoms));
}

/** 10.0.0.0/8, 10.0.0.0/255.0.0.0 or an address. */
function toCidr(text: string): string | undefined {
  const [address, mask] = text.split('/', 2);
  if (mask?.includes('.') !== true) return parseCidr(text) === undefined ? undefined : text;
  const bits = mask
    .split('.')
    .map(byte => Number(byte).toString(2).padStart(8, '0'))
    .join('');
  const cidr = `${address}/${bits.replaceAll('0', '').length}`;
  return /^1*0*$/.test(bits) && bits.length === 32 && parseCidr(cidr) !== undefined ? cidr : undefined;
}

/** `6443`, `6443:6445`, `eq 6443`. */
function isPortIn(port: number, values: readonly string[]): Verdict {
  const [operator] = values;
  if (operator !== undefined && /^(ne|lt|gt|le|ge)$/.test(operator)) return 'unknown';
  const isIn = values.some(value => {
    const [first, last = first] = value.split(':', 2);
    return Number(first) <= port && port <= Number(last);
  });
  return isIn ? 'yes' : 'no';
}

function same(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

/** The ACLs of a section by name. */
export function readAcls(
  lines: readonly Line[],
  context: Omit<AclContext, 'acls'>,
): ReadonlyMap<string, readonly Atom[]> {
  const acls = new Map<string, Atom[]>();
  for (const { words, place } of lines) {
    const [keyword, name, ...rest] = words;
    if (keyword.text !== 'acl' || name === undefined) continue;
    const atoms = acls.get(name.text) ?? [];
    acls.set(name.text, atoms);
    atoms.push(readAtom(rest, place, { ...context, acls }));
  }
  return acls;
}
