// Converts bytes to text, one character per byte (ISO 8859-1), for names and header values that are validated later:
// nothing is lost, replaced or decoded twice.

// Node's own method also accepts a plain Uint8Array as `this`, which saves a Buffer per string; its types do not say
// so. TextDecoder is no substitute: its `latin1` is windows-1252.
const { latin1Slice } = Buffer.prototype as unknown as {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
};

/** Bytes [from, to), which must be within `bytes`. */
export function latin1(bytes: Uint8Array, from: number, to: number): string {
  return latin1Slice.call(bytes, from, to);
}
