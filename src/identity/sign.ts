// Signs a cluster id (agents) and verifies a signature (gateways). A signature is valid for one id, one source address
// and port, and a short time; the caller must check the time and that the nonce is used only once.

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Endpoint } from '../wire/proxy-protocol.ts';
import { buildSignature, buildStamp, NONCE_BYTES, type Signature } from '../wire/signature.ts';

/** What is signed, besides time and nonce. */
export interface Claim {
  readonly id: string;
  /**
   * The source in the PROXY header that carries the signature, with its address in 4 or 16 bytes as in the header.
   * Absent with LOCAL, UNSPEC and over CONNECT, and then it contributes no bytes.
   */
  readonly source?: Endpoint | undefined;
}

const PREFIX = 'causeway/1';

/** Returns the 53 bytes of a signature. Never sign twice with the same nonce: the second signature is refused. */
export function sign(
  key: Uint8Array,
  claim: Claim,
  timeMs: number = Date.now(),
  nonce: Uint8Array = randomBytes(NONCE_BYTES),
): Uint8Array {
  const stamp = buildStamp(timeMs, nonce);
  return buildSignature(stamp, macOf(key, claim, stamp));
}

/** Whether one of the keys signed this claim. Takes constant time for a wrong signature, whatever is wrong. */
export function isSignedBy(keys: readonly Uint8Array[], claim: Claim, signature: Signature): boolean {
  let signed = false;
  for (const key of keys) {
    if (timingSafeEqual(macOf(key, claim, signature.stamp), signature.mac)) signed = true;
  }
  return signed;
}

function macOf(key: Uint8Array, { id, source }: Claim, stamp: Uint8Array): Uint8Array {
  // The id needs no length prefix: the key is derived from the same id, so one id cannot pass for another.
  const mac = createHmac('sha256', key).update(PREFIX).update(id, 'latin1').update(stamp);
  if (source !== undefined) {
    mac.update(source.address).update(Uint8Array.of(source.port >>> 8, source.port & 0xff));
  }
  return mac.digest();
}
