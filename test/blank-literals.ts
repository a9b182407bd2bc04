// TypeScript source with everything blanked that is not code, so that a rule can look for words in it.

/** After these a slash begins a regular expression; after anything else it divides. */
const BEFORE_REGEX =
  /(?:^|[=(,:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|of|in|do|else|yield|await|void))\s*$/;

export interface Blanked {
  /** Without comments, and with the contents of strings, templates and regular expressions as blanks. */
  readonly code: string;
  /** Without comments only. */
  readonly withStrings: string;
}

/** Line breaks stay where they are. */
export function blankLiterals(source: string): Blanked {
  let code = '';
  let withStrings = '';
  const keep = (text: string) => {
    code += text;
    withStrings += text;
  };
  const blank = (text: string, isComment: boolean) => {
    code += blanks(text);
    withStrings += isComment ? blanks(text) : text;
  };
  /** Depth of braces at which each open `${` of a template ends. */
  const templates: number[] = [];
  let depth = 0;
  let at = 0;
  /** Takes what the pattern matches here. */
  const take = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const text = pattern.exec(source)?.[0] ?? '';
    at += text.length;
    return text;
  };

  while (at < source.length) {
    const next = source.slice(at, at + 2);
    const char = source[at] as string;
    if (next === '//') blank(take(/\/\/[^\n]*/y), true);
    else if (next === '/*') blank(take(/\/\*[^]*?(?:\*\/|$)/y), true);
    else if (char === "'" || char === '"')
      blank(take(/'(?:\\[^]|[^'\\\n])*'?|"(?:\\[^]|[^"\\\n])*"?/y), false);
    else if (char === '/' && BEFORE_REGEX.test(code.slice(-20))) {
      blank(take(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])*\/?/y), false);
    } else if (char === '`' || (char === '}' && templates.at(-1) === depth)) {
      if (char === '}') templates.pop();
      const text = take(/[`}](?:\\[^]|(?!\$\{)[^`\\])*(?:`|\$\{|$)/y);
      blank(text, false);
      if (text.endsWith('${')) templates.push(depth);
    } else {
      if (char === '{') depth++;
      if (char === '}') depth--;
      keep(char);
      at++;
    }
  }
  return { code, withStrings };
}

function blanks(text: string): string {
  return text.replaceAll(/[^\n]/g, ' ');
}
