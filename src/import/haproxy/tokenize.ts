// HAProxy's text → lines of words with positions: quotes, escapes, comments and environment variables as in HAProxy's
// Configuration Manual, 2.2 and 2.3. Pure, and never throws.

import type { Fault, Place, SourceFile } from '../imported.ts';

export interface Word {
  readonly text: string;
  readonly place: Place;
}

export interface Line {
  readonly words: readonly Word[];
  /** Of the first word. */
  readonly place: Place;
}

export interface Tokens {
  readonly lines: readonly Line[];
  readonly faults: readonly Fault[];
  /** Environment variables that are not set and have no default. */
  readonly unset: readonly { readonly name: string; readonly place: Place }[];
}

/** A shape of a variable in double quotes: `${NAME}`, `${NAME-default}`, `${NAME[*]}`, `$NAME`. */
const VARIABLE = /\$(?:\{([A-Za-z_.][A-Za-z0-9_.]*)(?:\[\*\])?(?:-([^}]*))?\}|([A-Za-z_.][A-Za-z0-9_.]*))/y;
const CONTROLS: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };

export function tokenize(file: SourceFile, env: Readonly<Record<string, string | undefined>>): Tokens {
  const lines: Line[] = [];
  const faults: Fault[] = [];
  const unset: { name: string; place: Place }[] = [];
  for (const [index, text] of file.text.split('\n').entries()) {
    const at = (column: number): Place => ({ file: file.name, line: index + 1, column: column + 1 });
    const zero = text.indexOf('\0');
    if (zero >= 0) {
      faults.push({ place: at(zero), text: 'has a NUL byte: this is not a text file' });
      break;
    }
    const words = wordsOf(text.endsWith('\r') ? text.slice(0, -1) : text, at, env, faults, unset);
    if (words.length > 0) lines.push({ words, place: words[0].place });
  }
  return { lines, faults, unset };
}

type Quote = '"' | "'" | undefined;

function wordsOf(
  text: string,
  at: (column: number) => Place,
  env: Readonly<Record<string, string | undefined>>,
  faults: Fault[],
  unset: { name: string; place: Place }[],
): Word[] {
  const words: Word[] = [];
  let word: string | undefined;
  let start = 0;
  let quote: Quote;
  let quoteStart = 0;
  let i = 0;
  const add = (piece: string, length: number) => {
    if (word === undefined) start = i;
    word = (word ?? '') + piece;
    i += length;
  };
  const end = () => {
    if (word !== undefined) words.push({ text: word, place: at(start) });
    word = undefined;
  };
  while (i < text.length) {
    const char = text[i];
    if (quote === undefined && char === '#') break;
    if (quote === undefined && (char === ' ' || char === '\t')) {
      end();
      i++;
    } else if ((char === '"' || char === "'") && (quote === undefined || quote === char)) {
      quoteStart = i;
      quote = quote === undefined ? char : undefined;
      // An empty pair of quotes is a word too.
      add('', 1);
    } else if (char === '\\' && quote !== "'") {
      const escaped = unescape(text, i, quote);
      add(escaped.text, escaped.length);
    } else if (char === '$' && quote === '"') {
      VARIABLE.lastIndex = i;
      const match = VARIABLE.exec(text);
      if (match === null) add(char, 1);
      else {
        const [whole, braced, fallback, bare] = match;
        const name = braced ?? bare;
        const value = env[name] ?? fallback;
        if (value === undefined) unset.push({ name, place: at(i) });
        add(value ?? '', whole.length);
      }
    } else add(char, 1);
  }
  end();
  if (quote !== undefined) {
    const kind = quote === '"' ? 'double' : 'single';
    faults.push({ place: at(quoteStart), text: `this ${kind} quote is not closed on its line` });
  }
  return words;
}

function unescape(text: string, i: number, quote: Quote): { text: string; length: number } {
  const next = text[i + 1];
  if (next === undefined) return { text: '\\', length: 1 };
  if (next === ' ' || next === '\\' || next === '#' || next === '"') return { text: next, length: 2 };
  if (next === "'" && quote === undefined) return { text: next, length: 2 };
  if (next === '$' && quote === '"') return { text: next, length: 2 };
  const control = CONTROLS[next];
  if (control !== undefined) return { text: control, length: 2 };
  const hex = next === 'x' ? /^[0-9a-fA-F]{2}/.exec(text.slice(i + 2, i + 4)) : null;
  if (hex !== null) return { text: String.fromCharCode(Number.parseInt(hex[0], 16)), length: 4 };
  // Any other stays as it is: \. of a regular expression needs no second backslash.
  return { text: `\\${next}`, length: 2 };
}
