// A sample expression such as `req.ssl_sni,lower,map_str(hosts.map,be)`: the fetch, its converters, and what it tells of a
// connection: the host, the id in a PROXY header, the client's address, the port, or something that we do not know.

import type { HostMethod } from '../host-set.ts';
import { hostMethods } from '../host-set.ts';
import type { Place, Surroundings } from '../imported.ts';

interface Call {
  readonly name: string;
  readonly args: readonly string[];
}

export interface MapEntry {
  readonly key: string;
  readonly value: string;
  readonly place: Place;
}

export interface HostMap {
  readonly path: string;
  readonly method: HostMethod;
  readonly entries: readonly MapEntry[];
  readonly otherwise: string | undefined;
}

export type Subject =
  | {
      readonly kind: 'sni' | 'host-header';
      /** The first label has become `*`. */
      readonly isWildcard?: true;
      readonly map?: HostMap;
    }
  | { readonly kind: 'id'; readonly tlv: number; readonly map?: HostMap }
  | { readonly kind: 'src' }
  | { readonly kind: 'port' }
  | { readonly kind: 'constant'; readonly value: boolean }
  | { readonly kind: 'other'; readonly text: string };

export interface ExpressionContext {
  /** Variables that are set without a condition, by name. */
  readonly variables: ReadonlyMap<string, string>;
  readonly surroundings: Surroundings;
}

/** Variables may be set from variables. */
const MAX_DEPTH = 8;
const MAX_MAP_ENTRIES = 100_000;
/** PROXY protocol 2.2.5: UNIQUE_ID. */
const UNIQUE_ID = 0x05;
const HOST_HEADERS = new Set(['hdr', 'req.hdr', 'req.fhdr', 'fhdr', 'req.hdr_val']);
const SNI = new Set(['req.ssl_sni', 'req_ssl_sni', 'ssl_fc_sni']);

/** Also the method that the fetch's name implies, as in hdr_end(host). */
export function readSubject(
  text: string,
  context: ExpressionContext,
  depth = 0,
): { readonly subject: Subject; readonly method?: HostMethod } {
  const calls = parseCalls(text);
  const [fetch, ...converters] = calls ?? [];
  const other = { subject: { kind: 'other', text } as const };
  if (fetch === undefined) return other;
  if (fetch.name === 'var' && depth < MAX_DEPTH) {
    const set = context.variables.get(fetch.args[0] ?? '');
    if (set === undefined) return other;
    return readSubject([set, ...converters.map(callText)].join(','), context, depth + 1);
  }
  const { name, method } = withoutMethod(fetch.name);
  const base = baseOf(name, fetch.args);
  if (base === undefined) return other;
  let subject: Subject = base;
  for (const converter of converters) {
    const converted = convert(subject, converter, context);
    if (converted === undefined) return other;
    subject = converted;
  }
  return { subject, ...(method !== undefined && { method }) };
}

function baseOf(name: string, args: readonly string[]): Subject | undefined {
  if (SNI.has(name)) return { kind: 'sni' };
  if (HOST_HEADERS.has(name) && args[0]?.toLowerCase() === 'host') return { kind: 'host-header' };
  if (name === 'fc_pp_tlv') {
    const tlv = Number(args[0]);
    return Number.isInteger(tlv) && tlv >= 0 && tlv <= 255 ? { kind: 'id', tlv } : undefined;
  }
  if (name === 'fc_pp_unique_id') return { kind: 'id', tlv: UNIQUE_ID };
  if (name === 'src') return { kind: 'src' };
  if (name === 'dst_port' || name === 'fc_dst_port') return { kind: 'port' };
  if (name === 'always_true') return { kind: 'constant', value: true };
  if (name === 'always_false' || name === 'ssl_fc') return { kind: 'constant', value: false };
  return undefined;
}

/** Undefined if the result is something else. */
function convert(subject: Subject, { name, args }: Call, context: ExpressionContext): Subject | undefined {
  const isHost = subject.kind === 'sni' || subject.kind === 'host-header';
  if (!isHost && subject.kind !== 'id') return undefined;
  if (subject.map !== undefined) return undefined;
  // Hosts are compared in lower case.
  if (name === 'lower' && isHost) return subject;
  // All of these drop the port of a Host header.
  if (isHost && (name === 'host_only' || name === 'hostname_only')) return subject;
  if (isHost && (name === 'field' || name === 'word') && args[0] === '1' && args[1] === ':') return subject;
  if (isHost && name === 'rtrim' && args[0] === '.') return subject;
  if (isHost && name === 'regsub' && isLabelToWildcard(args)) return { ...subject, isWildcard: true };
  if (isHost && name === 'regsub' && /^\^?:/.test(args[0] ?? '') && (args[1] ?? '') === '') return subject;
  const map = readMap(name, args, context.surroundings);
  return map === undefined ? undefined : { ...subject, map };
}

/** As in `regsub(^[^.]+,*)`, for wildcards in maps. */
function isLabelToWildcard([pattern = '', replacement = '']: readonly string[]): boolean {
  if (!pattern.startsWith('^') || pattern.length > 100) return false;
  try {
    return 'sample-7.x.lab'.replace(new RegExp(pattern), () => replacement) === '*.x.lab';
  } catch {
    return false;
  }
}

function readMap(name: string, args: readonly string[], surroundings: Surroundings): HostMap | undefined {
  const match = /^map(?:_([a-z]+?))?(?:_(?:str|int|ip))?$/.exec(name);
  const method = hostMethods.find(one => one === (match?.[1] ?? 'str'));
  const [given, otherwise] = args;
  if (match === null || method === undefined || given === undefined) return undefined;
  // 3.0 names kinds of files: opt@, file@, virt@.
  const path = given.replace(/^(?:opt|file)@/, '');
  const text = surroundings.readFile(path);
  if (text === undefined) return undefined;
  return { path, method, entries: mapEntries(path, text), otherwise };
}

function mapEntries(file: string, text: string): MapEntry[] {
  const entries: MapEntry[] = [];
  for (const { text: line, place } of patternLines(file, text)) {
    const split = line.search(/\s/);
    if (split < 0) continue;
    entries.push({ key: line.slice(0, split), value: line.slice(split).trim(), place });
  }
  return entries;
}

/** Lines of a map or of a list of patterns, without comments and empty ones. */
export function patternLines(file: string, text: string): { readonly text: string; readonly place: Place }[] {
  const found: { text: string; place: Place }[] = [];
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const column = raw.length - raw.trimStart().length + 1;
    found.push({ text: line, place: { file, line: index + 1, column } });
    if (found.length >= MAX_MAP_ENTRIES) break;
  }
  return found;
}

/** hdr_end(host) is hdr(host) -m end. */
function withoutMethod(name: string): { name: string; method?: HostMethod } {
  const match = /^(hdr|req\.hdr|ssl_fc_sni|req_hdr)_(beg|end|dom|sub|reg|str)$/.exec(name);
  if (match === null) return { name };
  return { name: match[1], method: match[2] as HostMethod };
}

function callText({ name, args }: Call): string {
  return args.length === 0 ? name : `${name}(${args.join(',')})`;
}

/** `a,b(c,d),e`: undefined if the brackets do not match. */
function parseCalls(text: string): Call[] | undefined {
  const calls: Call[] = [];
  let rest = text;
  while (rest !== '') {
    const match = /^([A-Za-z0-9_.-]+)/.exec(rest);
    if (match === null) return undefined;
    rest = rest.slice(match[0].length);
    let args: string[] = [];
    if (rest.startsWith('(')) {
      const end = closing(rest);
      if (end < 0) return undefined;
      args = rest
        .slice(1, end)
        .split(',')
        .map(arg => arg.trim().replace(/^"(.*)"$|^'(.*)'$/, '$1$2'));
      rest = rest.slice(end + 1);
    }
    calls.push({ name: match[0], args });
    if (rest !== '' && !rest.startsWith(',')) return undefined;
    rest = rest.slice(1);
  }
  return calls;
}

function closing(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++;
    else if (text[i] === ')' && --depth === 0) return i;
  }
  return -1;
}
