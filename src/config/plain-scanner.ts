// The words of a block of YAML, for read-plain-block.ts: indentation, keys, scalars. Takes only what means the same
// everywhere in YAML 1.2; everything else is left where it stands, or makes it answer undefined or false.

const SPACE = 0x20;
const NEWLINE = 0x0a;
const HASH = 0x23;
const DASH = 0x2d;
const COLON = 0x3a;
const DOUBLE_QUOTE = 0x22;
const SINGLE_QUOTE = 0x27;
const BACKSLASH = 0x5c;
const FIRST_PRINTABLE = 0x20;
const LAST_PRINTABLE = 0x7e;

/** Characters of a plain scalar, apart from ":"; the first must be one of START. */
const WORD = classOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+=');
const START = classOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/');
const KEY = classOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-');

/** More digits might not be exact. */
const WHOLE = /^(?:0|[1-9]\d{0,14})$/;
/** May be a number in one of its other notations. */
const MAYBE_NUMBER = /^(?:\d+(?:\.\d*)?(?:[eE][-+]?\d*)?|0[xo][\da-fA-F]*)$/;
/** May be something else than text, in the YAML library's schema or in another one. */
const MAYBE_NOT_TEXT = /^(?:true|false|null|nan|inf)$/i;

export class Scanner {
  readonly #text: string;
  at = 0;
  /** Where skipToContent() has been, and what it found. */
  #contentAt = -1;
  #indent = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get isAtEnd(): boolean {
    return this.at >= this.#text.length;
  }

  /**
   * At the start of a line: skips blank lines and comments. Returns the indentation of what follows, also when asked
   * again; undefined at the end.
   */
  skipToContent(): number | undefined {
    if (this.at === this.#contentAt) return this.#indent;
    for (;;) {
      const indent = this.skipSpaces();
      if (this.isAtEnd) return undefined;
      const code = this.#text.charCodeAt(this.at);
      if (code === HASH) this.#skipLine();
      else if (code === NEWLINE) this.at++;
      else {
        this.#contentAt = this.at;
        this.#indent = indent;
        return indent;
      }
    }
  }

  /** Returns how many there were. */
  skipSpaces(): number {
    const start = this.at;
    while (this.#text.charCodeAt(this.at) === SPACE) this.at++;
    return this.at - start;
  }

  /** Whether nothing but a comment is left on the line, which it then skips. */
  endLine(): boolean {
    const spaces = this.skipSpaces();
    if (this.isAtEnd) return true;
    const code = this.#text.charCodeAt(this.at);
    if (code !== NEWLINE && (code !== HASH || spaces === 0)) return false;
    this.#skipLine();
    return true;
  }

  /** Inside [ ] or { }: skips to what follows. False if that is not indented deeper than the block around it. */
  skipInFlow(indent: number): boolean {
    this.skipSpaces();
    while (this.#text.charCodeAt(this.at) === NEWLINE) {
      this.at++;
      if (this.skipSpaces() <= indent) return false;
    }
    return !this.isAtEnd;
  }

  take(character: '[' | ']' | '{' | '}' | ','): boolean {
    if (this.#text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  /** At an item of a list whose value is on the same line. */
  isItem(): boolean {
    return this.#text.charCodeAt(this.at) === DASH && this.#text.charCodeAt(this.at + 1) === SPACE;
  }

  isKey(): boolean {
    return this.#keyEnd() !== undefined;
  }

  /** A key and its colon. */
  takeKey(): string | undefined {
    const end = this.#keyEnd();
    if (end === undefined) return undefined;
    const key = this.#text.slice(this.at, end);
    this.at = end + 1;
    return key === '__proto__' ? undefined : key;
  }

  takeScalar(): string | number | undefined {
    const code = this.#text.charCodeAt(this.at);
    if (code === DOUBLE_QUOTE || code === SINGLE_QUOTE) return this.#takeQuoted(code);
    return START[code] === 1 ? this.#takeWord() : undefined;
  }

  #skipLine(): void {
    const end = this.#text.indexOf('\n', this.at);
    this.at = end < 0 ? this.#text.length : end + 1;
  }

  #keyEnd(): number | undefined {
    let end = this.at;
    if (START[this.#text.charCodeAt(end)] !== 1) return undefined;
    while (KEY[this.#text.charCodeAt(end)] === 1) end++;
    if (this.#text.charCodeAt(end) !== COLON || end === this.at) return undefined;
    const after = this.#text.charCodeAt(end + 1);
    return after === SPACE || after === NEWLINE ? end : undefined;
  }

  /** On one line, without escapes, and not a key. */
  #takeQuoted(quote: number): string | undefined {
    const start = this.at + 1;
    let end = start;
    for (;;) {
      const code = this.#text.charCodeAt(end);
      if (code === quote) break;
      if (!(code >= FIRST_PRINTABLE && code <= LAST_PRINTABLE) || code === BACKSLASH) return undefined;
      end++;
    }
    this.at = end + 1;
    return this.#isEndOfScalar() ? this.#text.slice(start, end) : undefined;
  }

  #takeWord(): string | number | undefined {
    const start = this.at;
    let end = start;
    for (;;) {
      const code = this.#text.charCodeAt(end);
      if (WORD[code] !== 1 && (code !== COLON || WORD[this.#text.charCodeAt(end + 1)] !== 1)) break;
      end++;
    }
    this.at = end;
    if (!this.#isEndOfScalar()) return undefined;
    const word = this.#text.slice(start, end);
    if (WHOLE.test(word)) return Number(word);
    return MAYBE_NUMBER.test(word) || MAYBE_NOT_TEXT.test(word) ? undefined : word;
  }

  /** What may follow a scalar, in a block or between brackets. */
  #isEndOfScalar(): boolean {
    const next = this.#text[this.at];
    return next === undefined || ' \n,]}'.includes(next);
  }
}

function classOf(characters: string): Uint8Array {
  const members = new Uint8Array(128);
  for (const character of characters) members[character.charCodeAt(0)] = 1;
  return members;
}
