// Parses the gateway's answers and escapes every control character in their texts: bytes that a client or a backend sent
// must not reorder or break a line of the page.

/** C0, DEL, C1, line and paragraph separator, direction controls, the byte order mark. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Most answers have none, escaped or not, and are parsed without looking at each text. */
export function parsePrintable<T>(json: string): T {
  if (!json.includes('\\') && json.search(CONTROLS) < 0) return JSON.parse(json) as T;
  return JSON.parse(json, (_, value) => (typeof value === 'string' ? printable(value) : value)) as T;
}

/** Line ends stay: a list of mistakes in the config has one on each line. */
export function printable(text: string): string {
  return text.replace(CONTROLS, char =>
    char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
