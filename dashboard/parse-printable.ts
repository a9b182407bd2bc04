// The gateway's answers, with every control character in their texts shown instead of obeyed: what a client or a
// backend sent must not reorder or break a line of the page.

/** C0, DEL, C1, line and paragraph separator, direction controls, the byte order mark. */
// oxlint-disable-next-line no-control-regex -- they are what it is about
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** The gateway escapes all of them in its JSON: an answer without a backslash has none, and most have none. */
export function parsePrintable<T>(json: string): T {
  if (!json.includes('\\')) return JSON.parse(json) as T;
  return JSON.parse(json, (_, value) => (typeof value === 'string' ? printable(value) : value)) as T;
}

/** Line ends of ours stay: a list of mistakes has one on each line. */
function printable(text: string): string {
  return text.replace(CONTROLS, char =>
    char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
