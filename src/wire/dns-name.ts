// Domain names on the wire (RFC 1035 3.1 and 4.1.4): labels behind their lengths, ended by the root or by a pointer to an
// earlier name. Text is lower case or as sent, without the trailing dot; the root is ''.

/** RFC 1035 2.3.4, lengths and root included. */
export const MAX_NAME_BYTES = 255;
export const MAX_LABEL_BYTES = 63;
/** The two highest bits of a length say that a pointer follows. */
const POINTER = 0xc0;
/** Printed as they are; others as `\DDD` (RFC 1035 5.1), so that no name can be taken for another. */
const PLAIN = /^[!-\-/-[\]-~]+$/;

export interface WireName {
  readonly text: string;
  /** Behind the name, where it stands. */
  readonly end: number;
}

export type ReadName = WireName | 'incomplete' | 'label-type-unknown' | 'name-too-long' | 'pointer-not-back';

/** Bytes of a name of letters, digits, `-`, `_` and `*`, as hosts are. */
export function encodeDnsName(text: string): Uint8Array {
  const labels = text === '' ? [] : text.split('.');
  const bytes = new Uint8Array(labels.reduce((sum, label) => sum + label.length + 1, 1));
  let at = 0;
  for (const label of labels) {
    bytes[at++] = label.length;
    for (let i = 0; i < label.length; i++) bytes[at++] = label.charCodeAt(i);
  }
  return bytes;
}

/** The name at `at` in a message in [from, to). Each pointer must go further back than the last, so none can loop. */
export function readDnsName(bytes: Uint8Array, at: number, from: number, to: number): ReadName {
  const labels: string[] = [];
  let end = -1;
  let limit = at;
  let total = 1;
  for (;;) {
    if (at >= to) return 'incomplete';
    const length = bytes[at];
    if (length === 0) break;
    if (length >= POINTER) {
      if (at + 1 >= to) return 'incomplete';
      const target = from + (((length & ~POINTER) << 8) | bytes[at + 1]);
      if (end < 0) end = at + 2;
      if (target >= limit) return 'pointer-not-back';
      at = target;
      limit = target;
      continue;
    }
    if (length > MAX_LABEL_BYTES) return 'label-type-unknown';
    total += length + 1;
    if (total > MAX_NAME_BYTES) return 'name-too-long';
    if (at + 1 + length > to) return 'incomplete';
    labels.push(labelText(bytes.subarray(at + 1, at + 1 + length)));
    at += 1 + length;
  }
  return { text: labels.join('.'), end: end < 0 ? at + 1 : end };
}

function labelText(label: Uint8Array): string {
  const text = String.fromCharCode(...label);
  if (PLAIN.test(text)) return text;
  return Array.from(text, character =>
    PLAIN.test(character) ? character : `\\${String(character.charCodeAt(0)).padStart(3, '0')}`,
  ).join('');
}
