// Bytes as text, one character per byte (ISO 8859-1), for names and header values that are validated later: nothing is
// lost, replaced or decoded twice.

// Node's own method also accepts a plain Uint8Array as `this`, which saves a Buffer per string; its types do not say
// so. TextDecoder is no substitute: its `latin1` is windows-1252.
const { latin1Slice } = Buffer.prototype as unknown as {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
};

/** ASCII letters in lower case, other bytes as they are. */
export const lowerCase = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte,
);

/** Bytes [from, to), which must be within `bytes`. */
export function latin1(bytes: Uint8Array, from: number, to: number): string {
  return latin1Slice.call(bytes, from, to);
}

/** Whether bytes [from, to) are this text. */
export function isText(bytes: Uint8Array, from: number, to: number, text: string): boolean {
  if (to - from !== text.length) return false;
  for (let at = 0; at < text.length; at++) if (bytes[from + at] !== text.charCodeAt(at)) return false;
  return true;
}

/** The same, in any case. `text` is in lower case. */
export function isTextInAnyCase(bytes: Uint8Array, from: number, to: number, text: string): boolean {
  if (to - from !== text.length) return false;
  for (let at = 0; at < text.length; at++)
    if (lowerCase[bytes[from + at]] !== text.charCodeAt(at)) return false;
  return true;
}
