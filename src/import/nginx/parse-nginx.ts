// nginx's text → directives with positions, includes expanded in their place. Never throws; what cannot be read is a
// fault with its position.

import { append } from '../append.ts';
import type { Fault, Place, SourceFile, Surroundings } from '../imported.ts';

/** Files that include files that include files. */
const MAX_INCLUDES = 8;
const MAX_DEPTH = 50;

export interface Directive {
  readonly name: string;
  readonly args: readonly string[];
  readonly place: Place;
  /** Undefined for one that ends with a semicolon. */
  readonly block?: readonly Directive[];
}

export interface ParsedNginx {
  readonly directives: readonly Directive[];
  readonly faults: readonly Fault[];
  /** Includes that cannot be read. */
  readonly missing: readonly { readonly path: string; readonly place: Place }[];
}

interface Token {
  /** `{`, `}` and `;` unquoted, or a word. */
  readonly mark?: string;
  readonly text: string;
  readonly place: Place;
}

export function parseNginx(file: SourceFile, surroundings: Surroundings, depth = 0): ParsedNginx {
  const faults: Fault[] = [];
  const missing: { path: string; place: Place }[] = [];
  const tokens = tokenize(file, faults);
  let at = 0;
  const parseBlock = (level: number, open: Place | undefined): Directive[] => {
    const directives: Directive[] = [];
    let words: Token[] = [];
    while (at < tokens.length && faults.length === 0) {
      const token = tokens[at++];
      if (token.mark === undefined) {
        words.push(token);
        continue;
      }
      const [name, ...args] = words;
      words = [];
      if (token.mark === '}') {
        if (name !== undefined)
          faults.push({ place: name.place, text: `'${name.text}' is not ended by ';'` });
        else if (open === undefined) faults.push({ place: token.place, text: "this '}' closes nothing" });
        return directives;
      }
      if (name === undefined) {
        // An empty statement.
        if (token.mark === '{') faults.push({ place: token.place, text: "this '{' has no name in front" });
        continue;
      }
      const directive = { name: name.text, args: args.map(arg => arg.text), place: name.place };
      if (token.mark === '{') {
        if (level >= MAX_DEPTH) faults.push({ place: token.place, text: 'blocks are nested too deeply' });
        else directives.push({ ...directive, block: parseBlock(level + 1, token.place) });
      } else if (name.text === 'include' && args[0] !== undefined)
        append(directives, included(args[0].text, name.place));
      else directives.push(directive);
    }
    if (faults.length > 0) return directives;
    if (words.length > 0)
      faults.push({ place: words[0].place, text: `'${words[0].text}' is not ended by ';'` });
    else if (open !== undefined) faults.push({ place: open, text: "this '{' is not closed" });
    return directives;
  };
  const included = (path: string, place: Place): readonly Directive[] => {
    const paths = path.includes('*') ? surroundings.listFiles(path) : [path];
    return paths.flatMap(one => {
      const text = depth < MAX_INCLUDES ? surroundings.readFile(one) : undefined;
      if (text === undefined) {
        missing.push({ path: one, place });
        return [];
      }
      const inner = parseNginx({ name: one, text }, surroundings, depth + 1);
      append(faults, inner.faults);
      append(missing, inner.missing);
      return inner.directives;
    });
  };
  const directives = parseBlock(0, undefined);
  return { directives, faults, missing };
}

function tokenize({ name, text }: SourceFile, faults: Fault[]): Token[] {
  const tokens: Token[] = [];
  let line = 1;
  let start = 0;
  let i = 0;
  const here = (): Place => ({ file: name, line, column: i - start + 1 });
  const zero = text.indexOf('\0');
  if (zero >= 0) {
    const before = text.slice(0, zero).split('\n');
    const place = { file: name, line: before.length, column: (before.at(-1) ?? '').length + 1 };
    faults.push({ place, text: 'has a NUL byte: this is not a text file' });
    return tokens;
  }
  const isSpace = (char: string) => char === ' ' || char === '\t' || char === '\r' || char === '\n';
  while (i < text.length) {
    const char = text[i];
    if (char === '\n') {
      line++;
      start = i + 1;
    }
    if (isSpace(char)) i++;
    else if (char === '#') while (i < text.length && text[i] !== '\n') i++;
    else if (char === ';' || char === '{' || char === '}') {
      tokens.push({ mark: char, text: char, place: here() });
      i++;
    } else {
      const place = here();
      const quote = char === '"' || char === "'" ? char : undefined;
      if (quote !== undefined) i++;
      let word = '';
      for (; i < text.length; i++) {
        const next = text[i];
        if (next === '\n' && quote !== undefined) {
          line++;
          start = i + 1;
        }
        if (
          quote === undefined ? isSpace(next) || next === ';' || isBlockStart(text, i, word) : next === quote
        )
          break;
        // A backslash before another character stays, since regular expressions need it.
        const isEscape = next === '\\' && /["'\\]/.test(text[i + 1] ?? '');
        word += isEscape ? text[++i] : next;
      }
      if (quote !== undefined && i >= text.length) {
        faults.push({ place, text: `this ${quote === '"' ? 'double' : 'single'} quote is not closed` });
        return tokens;
      }
      if (quote !== undefined) i++;
      tokens.push({ text: word, place });
    }
  }
  return tokens;
}

/** `${name}` is part of a word. */
function isBlockStart(text: string, i: number, word: string): boolean {
  return text[i] === '{' && !word.endsWith('$');
}
