// Blanks everything in TypeScript source that is not code, so that a rule can search it.

/** After these a slash starts a regular expression; otherwise it is a division. */
const BEFORE_REGEX =
  /(?:^|[=(,:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|of|in|do|else|yield|await|void))\s*$/;

export interface Blanked {
  /** Comments and the contents of strings, templates and regular expressions blanked. */
  readonly code: string;
  /** Only comments blanked. */
  readonly withStrings: string;
}

/** Keeps line breaks. */
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
  /** Brace depth at which each open `${` of a template ends. */
  const templates: number[] = [];
  let depth = 0;
  let at = 0;
  /** Consumes a match of the pattern at the current position. */
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
