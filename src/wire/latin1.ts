// Bytes to text, one character per byte (ISO 8859-1), for names and header values whose legality is judged
// later: nothing is lost, replaced or decoded twice on the way.

// Node's own method also takes a plain Uint8Array as `this`, which saves a Buffer per string; its types do
// not know that. TextDecoder is no substitute: its `latin1` is windows-1252.
const { latin1Slice } = Buffer.prototype as unknown as {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
};

/** The bytes [from, to), which must lie within `bytes`. */
export function latin1(bytes: Uint8Array, from: number, to: number): string {
  return latin1Slice.call(bytes, from, to);
}
