// A regular expression on host names → the sets it stands for. Reads the part of PCRE that people write for hosts:
// literals, `.`, classes, `+ * ?`, groups with alternatives, anchors. Expands alternatives, so that each is a plain
// sequence, which is matched without backtracking. Pure, never throws, bounded.

/** How many sequences alternatives may expand to. */
const MAX_SEQUENCES = 512;
const MAX_LENGTH = 2000;
const MAX_DEPTH = 20;

/** What one position of a sequence accepts. */
interface Item {
  /** The character, if it is only one. */
  readonly literal?: string;
  /** An unescaped dot. */
  readonly any?: true;
  accepts(char: string): boolean;
  readonly repeat: '1' | '?' | '+' | '*';
}

export interface HostSequence {
  readonly items: readonly Item[];
  readonly fromStart: boolean;
  readonly toEnd: boolean;
}

type Node =
  | { readonly item: Item }
  | { readonly start: true }
  | { readonly end: true }
  | { readonly either: readonly (readonly Node[])[]; readonly isOptional: boolean };

/** Undefined if it uses anything else. */
export function parseHostRegex(source: string, ignoreCase: boolean): readonly HostSequence[] | undefined {
  if (source.length > MAX_LENGTH) return undefined;
  const ignores = ignoreCase || source.startsWith('(?i)');
  const parser = { text: source.replace(/^\(\?i\)/, ''), at: 0, depth: 0, ignores };
  const nodes = parseAlternatives(parser);
  if (nodes === undefined || parser.at < parser.text.length) return undefined;
  const sequences = expand([{ either: nodes, isOptional: false }]);
  return sequences
    ?.map(toSequence)
    .reduce<HostSequence[] | undefined>(
      (all, one) => (all === undefined || one === undefined ? undefined : [...all, one]),
      [],
    );
}

/** As the original would decide, on a lower-case host. */
export function sequenceHas({ items, fromStart, toEnd }: HostSequence, host: string): boolean {
  // The set of positions in the sequence that are reachable, moved on with each character.
  let states = closure(items, new Set([0]));
  if (states.has(items.length) && !toEnd) return true;
  for (const char of host) {
    const next = new Set<number>();
    for (const state of states) {
      const item = items[state];
      if (item === undefined || !item.accepts(char)) continue;
      if (item.repeat === '+' || item.repeat === '*') next.add(state);
      next.add(state + 1);
    }
    if (!fromStart) next.add(0);
    states = closure(items, next);
    if (states.has(items.length) && !toEnd) return true;
    if (states.size === 0) return false;
  }
  return states.has(items.length);
}

/** After `x+` has matched once it may match again or go on; `x*` and `x?` may be left out. */
function closure(items: readonly Item[], states: Set<number>): Set<number> {
  for (const state of states) {
    const repeat = items[state]?.repeat;
    if (repeat === '*' || repeat === '?') states.add(state + 1);
  }
  return states;
}

interface Parser {
  readonly text: string;
  at: number;
  depth: number;
  readonly ignores: boolean;
}

function parseAlternatives(parser: Parser): Node[][] | undefined {
  if (++parser.depth > MAX_DEPTH) return undefined;
  const all: Node[][] = [[]];
  while (parser.at < parser.text.length && parser.text[parser.at] !== ')') {
    if (parser.text[parser.at] === '|') {
      parser.at++;
      all.push([]);
      continue;
    }
    const node = parseNode(parser);
    if (node === undefined) return undefined;
    all[all.length - 1].push(node);
  }
  parser.depth--;
  return all;
}

function parseNode(parser: Parser): Node | undefined {
  const char = parser.text[parser.at++];
  if (char === '^') return { start: true };
  if (char === '$') return { end: true };
  if (char === '(') return parseGroup(parser);
  if ('*+?{)'.includes(char)) return undefined;
  const accepted = char === '[' ? parseClass(parser) : parseOne(parser, char);
  if (accepted === undefined) return undefined;
  const repeat = parseRepeat(parser);
  return repeat === undefined ? undefined : { item: { ...accepted, repeat } };
}

function parseGroup(parser: Parser): Node | undefined {
  if (parser.text.startsWith('?:', parser.at)) parser.at += 2;
  else if (parser.text[parser.at] === '?') return undefined;
  const either = parseAlternatives(parser);
  if (either === undefined || parser.text[parser.at++] !== ')') return undefined;
  const repeat = parseRepeat(parser);
  return repeat === '1' || repeat === '?' ? { either, isOptional: repeat === '?' } : undefined;
}

function parseRepeat(parser: Parser): Item['repeat'] | undefined {
  const char = parser.text[parser.at];
  if (char === '{') return undefined;
  if (char !== '?' && char !== '+' && char !== '*') return '1';
  parser.at++;
  // Lazy and possessive forms accept the same hosts, but for possessive ones, which nobody writes here.
  if (parser.text[parser.at] === '?') parser.at++;
  return parser.text[parser.at] === '+' ? undefined : char;
}

type Accepts = Omit<Item, 'repeat'>;

function parseOne(parser: Parser, char: string): Accepts | undefined {
  if (char === '.') return { any: true, accepts: () => true };
  if (char !== '\\') return literal(char, parser.ignores);
  const escaped = parser.text[parser.at++];
  if (escaped === undefined) return undefined;
  const named = NAMED_CLASSES[escaped];
  if (named !== undefined) return { accepts: one => named.test(one) };
  return /[A-Za-z0-9]/.test(escaped) ? undefined : literal(escaped, parser.ignores);
}

const NAMED_CLASSES: Readonly<Record<string, RegExp>> = { d: /\d/, w: /\w/, D: /\D/, W: /\W/ };

function parseClass(parser: Parser): Accepts | undefined {
  const negated = parser.text[parser.at] === '^';
  if (negated) parser.at++;
  const ranges: [string, string][] = [];
  const named: RegExp[] = [];
  for (let isFirst = true; ; isFirst = false) {
    let char = parser.text[parser.at++];
    if (char === undefined || (char === '[' && /[:.=]/.test(parser.text[parser.at] ?? ''))) return undefined;
    if (char === ']' && !isFirst) break;
    if (char === '\\') {
      char = parser.text[parser.at++];
      if (char === undefined) return undefined;
      const known = NAMED_CLASSES[char];
      if (known !== undefined) {
        named.push(known);
        continue;
      }
      if (/[A-Za-z0-9]/.test(char)) return undefined;
    }
    const isRange = parser.text[parser.at] === '-' && (parser.text[parser.at + 1] ?? ']') !== ']';
    const last = isRange ? parser.text[parser.at + 1] : char;
    if (isRange) parser.at += 2;
    if (last === '\\' || last < char) return undefined;
    ranges.push([char, last]);
  }
  const isIn = (char: string) =>
    ranges.some(([first, last]) => first <= char && char <= last) || named.some(one => one.test(char));
  const accepts = (char: string) => (isIn(char) || (parser.ignores && isIn(char.toUpperCase()))) !== negated;
  const only = ranges.length === 1 && !negated && named.length === 0 && ranges[0][0] === ranges[0][1];
  return { ...(only && { literal: ranges[0][0] }), accepts };
}

function literal(char: string, ignores: boolean): Accepts {
  const folded = ignores ? char.toLowerCase() : char;
  return { literal: folded, accepts: one => one === folded };
}

/** Undefined if there are too many. */
function expand(nodes: readonly Node[]): Node[][] | undefined {
  let all: Node[][] = [[]];
  for (const node of nodes) {
    if (!('either' in node)) {
      for (const one of all) one.push(node);
      continue;
    }
    const choices: Node[][] = node.isOptional ? [[]] : [];
    for (const alternative of node.either) {
      const expanded = expand(alternative);
      if (expanded === undefined) return undefined;
      choices.push(...expanded);
    }
    if (all.length * choices.length > MAX_SEQUENCES) return undefined;
    all = all.flatMap(one => choices.map(choice => [...one, ...choice]));
  }
  return all;
}

/** Anchors belong at the ends. */
function toSequence(nodes: readonly Node[]): HostSequence | undefined {
  const first = nodes.findIndex(node => !('start' in node));
  const from = first < 0 ? nodes.length : first;
  let to = nodes.length;
  while (to > from && 'end' in nodes[to - 1]) to--;
  const items: Item[] = [];
  for (const node of nodes.slice(from, to)) {
    if (!('item' in node)) return undefined;
    items.push(node.item);
  }
  return { items, fromStart: from > 0, toEnd: to < nodes.length };
}
