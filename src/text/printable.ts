// Makes untrusted text safe to show: text from a client, a backend, an API server, a file or a file name must not
// control a terminal, start a new line in the log, or reorder what a person reads.

/**
 * DEL and C1 (U+0080 to U+009F); line and paragraph separator (U+2028, U+2029); direction marks, embeddings, overrides and
 * isolates (Unicode's Bidi_Control); the byte order mark, which is not visible.
 */
const BEYOND_C0 = '\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff';
const CONTROLS = new RegExp(`[\\u0000-\\u001f${BEYOND_C0}]`, 'g');
const UNESCAPED_BY_JSON = new RegExp(`[${BEYOND_C0}]`, 'g');

const shortForms: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/** One line of text: escapes control characters as `\n` or `\u001b`. */
export function printable(text: string): string {
  return text.replace(CONTROLS, char => shortForms[char] ?? escaped(char));
}

/** Expects output of JSON.stringify(), which escapes only C0. The value does not change. */
export function printableJson(json: string): string {
  return json.replace(UNESCAPED_BY_JSON, escaped);
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
