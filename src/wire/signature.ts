// The signature of the cluster id that an agent sends: in TLV 0xE1 of its PROXY header, or in the header
// `Causeway-Signature` of its CONNECT. This file has only the layout; src/identity has keys and hashes.
//
//   0      1               9                 21                            53
//   | 0x01 | time, u64 BE  | nonce           | HMAC-SHA-256                |

import { found, type Parsed, reject } from './parsed.ts';

/** In the range that the PROXY protocol reserves for applications (0xE0 to 0xEF). */
export const SIGNATURE_TLV = 0xe1;
/** In lower case, as parseHttpHead() returns names. */
export const SIGNATURE_HEADER = 'causeway-signature';

export const NONCE_BYTES = 12;
const MAC_BYTES = 32;
const VERSION = 1;
const TIME_AT = 1;
const NONCE_AT = 9;
const MAC_AT = NONCE_AT + NONCE_BYTES;
const SIGNATURE_BYTES = MAC_AT + MAC_BYTES;

const TWO_TO_32 = 2 ** 32;

/** The parts of a parsed signature are views of the bytes it was read from: copy what you keep. */
export interface Signature {
  /** Unix time in ms; exact up to 2^53. Larger values are inexact, but far from any clock. */
  readonly timeMs: number;
  readonly nonce: Uint8Array;
  readonly mac: Uint8Array;
  /** The raw bytes of time and nonce: the part of the signature that the MAC covers. */
  readonly stamp: Uint8Array;
}

/** `bytes` must be exactly the signature: the result is never incomplete. */
export function parseSignature(bytes: Uint8Array): Parsed<Signature> {
  if (bytes.length !== SIGNATURE_BYTES) return reject('signature-length');
  if (bytes[0] !== VERSION) return reject('signature-version');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return found({
    timeMs: view.getUint32(TIME_AT) * TWO_TO_32 + view.getUint32(TIME_AT + 4),
    nonce: bytes.subarray(NONCE_AT, MAC_AT),
    mac: bytes.subarray(MAC_AT),
    stamp: bytes.subarray(TIME_AT, MAC_AT),
  });
}

/** From the header: base64url without padding, in canonical spelling only. */
export function parseSignatureText(text: string): Parsed<Signature> {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? parseSignature(bytes) : reject('signature-base64url');
}

/** Time and nonce, see `Signature.stamp`. */
export function buildStamp(timeMs: number, nonce: Uint8Array): Uint8Array {
  if (nonce.length !== NONCE_BYTES) {
    throw new RangeError(
      `Cannot sign: the nonce must have ${NONCE_BYTES} bytes: current value is ${nonce.length}`,
    );
  }
  const stamp = new Uint8Array(MAC_AT - TIME_AT);
  new DataView(stamp.buffer).setBigUint64(0, BigInt(timeMs));
  stamp.set(nonce, NONCE_AT - TIME_AT);
  return stamp;
}

export function buildSignature(stamp: Uint8Array, mac: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(SIGNATURE_BYTES);
  bytes[0] = VERSION;
  bytes.set(stamp, TIME_AT);
  bytes.set(mac, MAC_AT);
  return bytes;
}

/** For the header `Causeway-Signature`. */
export function formatSignature(signature: Uint8Array): string {
  return Buffer.from(signature).toString('base64url');
}
