// Text from elsewhere, made safe to show: what a client, a backend, an API server, a file name or a file sends must
// neither steer a terminal, nor start a line of its own in the log, nor reorder what a person reads.

/**
 * DEL and C1 (U+0080 to U+009F); line and paragraph separator (U+2028, U+2029); direction marks, embeddings, overrides and
 * isolates (Unicode's Bidi_Control); the byte order mark, which is not visible.
 */
const BEYOND_C0 = '\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff';
const CONTROLS = new RegExp(`[\\u0000-\\u001f${BEYOND_C0}]`, 'g');
const UNESCAPED_BY_JSON = new RegExp(`[${BEYOND_C0}]`, 'g');

const shortForms: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/** One line of text: control characters are shown as `\n` or `\u001b` instead of obeyed. */
export function printable(text: string): string {
  return text.replace(CONTROLS, char => shortForms[char] ?? escaped(char));
}

/** JSON as JSON.stringify() writes it, which escapes C0 alone. The value stays the same. */
export function printableJson(json: string): string {
  return json.replace(UNESCAPED_BY_JSON, escaped);
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
