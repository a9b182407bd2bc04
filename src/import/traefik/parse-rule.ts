// Traefik's rules: HostSNI(`a`) || HostSNIRegexp(`^…$`) && ClientIP(`10.0.0.0/8`) → alternatives, each of matchers that must
// all hold. Never throws; undefined if it cannot be read.

export interface Matcher {
  readonly name: string;
  readonly args: readonly string[];
  readonly isNegated: boolean;
}

/** Any of them; of each all. */
export type Alternatives = readonly (readonly Matcher[])[];

const TOKEN = /\s*(?:(&&|\|\||!|\(|\)|,)|`([^`]*)`|"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z][A-Za-z0-9]*))/y;
const MAX_ALTERNATIVES = 256;
const MAX_DEPTH = 30;

interface Token {
  readonly mark?: string;
  readonly text?: string;
  readonly word?: string;
}

export function parseRule(rule: string): Alternatives | undefined {
  const tokens = tokenize(rule);
  if (tokens === undefined) return undefined;
  const state = { tokens, at: 0, depth: 0 };
  const parsed = either(state);
  return state.at === tokens.length ? parsed : undefined;
}

function tokenize(rule: string): Token[] | undefined {
  const tokens: Token[] = [];
  const text = rule.trim();
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const match = TOKEN.exec(text);
    if (match === null) return undefined;
    const [, mark, ticked, double, single, word] = match;
    if (mark !== undefined) tokens.push({ mark });
    else if (word !== undefined) tokens.push({ word });
    else tokens.push({ text: ticked ?? single ?? double.replace(/\\(.)/g, '$1') });
  }
  return tokens;
}

interface State {
  readonly tokens: readonly Token[];
  at: number;
  depth: number;
}

function either(state: State): Alternatives | undefined {
  if (++state.depth > MAX_DEPTH) return undefined;
  let all = both(state);
  while (all !== undefined && state.tokens[state.at]?.mark === '||') {
    state.at++;
    const next = both(state);
    all = next === undefined || all.length + next.length > MAX_ALTERNATIVES ? undefined : [...all, ...next];
  }
  state.depth--;
  return all;
}

function both(state: State): Alternatives | undefined {
  let all = one(state);
  while (all !== undefined && state.tokens[state.at]?.mark === '&&') {
    state.at++;
    const next = one(state);
    if (next === undefined || all.length * next.length > MAX_ALTERNATIVES) return undefined;
    all = all.flatMap(some => next.map(others => [...some, ...others]));
  }
  return all;
}

function one(state: State): Alternatives | undefined {
  const token = state.tokens[state.at++];
  if (token?.mark === '(') {
    const inner = either(state);
    return state.tokens[state.at++]?.mark === ')' ? inner : undefined;
  }
  if (token?.mark === '!') {
    const inner = one(state);
    // Not of a single matcher only.
    return inner?.length === 1 && inner[0].length === 1
      ? [[{ ...inner[0][0], isNegated: !inner[0][0].isNegated }]]
      : undefined;
  }
  if (token?.word === undefined || state.tokens[state.at++]?.mark !== '(') return undefined;
  const args: string[] = [];
  for (;;) {
    const next = state.tokens[state.at++];
    if (next === undefined || next.word !== undefined) return undefined;
    if (next.mark === ')') break;
    if (next.text !== undefined) args.push(next.text);
    else if (next.mark !== ',') return undefined;
  }
  return [[{ name: token.word, args, isNegated: false }]];
}
