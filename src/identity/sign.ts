// Signing a cluster id, as agents do, and looking whether a signature is right, as gateways do. A signature counts
// for one id, one source address and port, and about one moment; that it is used only once is the caller's to see to.

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Endpoint } from '../wire/proxy-protocol.ts';
import { buildSignature, buildStamp, NONCE_BYTES, type Signature } from '../wire/signature.ts';

/** What is signed besides the moment. */
export interface Claim {
  readonly id: string;
  /**
   * Of the PROXY header that carries the signature, its address in as many bytes (4 or 16) as it has there; absent
   * with LOCAL, UNSPEC and over CONNECT, and then no bytes stand for it.
   */
  readonly source?: Endpoint | undefined;
}

const PREFIX = 'causeway/1';

/** The 53 bytes of a signature. Never sign twice with the same nonce: the second is refused. */
export function sign(
  key: Uint8Array,
  claim: Claim,
  timeMs: number = Date.now(),
  nonce: Uint8Array = randomBytes(NONCE_BYTES),
): Uint8Array {
  const stamp = buildStamp(timeMs, nonce);
  return buildSignature(stamp, macOf(key, claim, stamp));
}

/** Whether one of the keys made the signature for that claim. Takes as long for a wrong one, whatever is wrong. */
export function isSignedBy(keys: readonly Uint8Array[], claim: Claim, signature: Signature): boolean {
  let signed = false;
  for (const key of keys) {
    if (timingSafeEqual(macOf(key, claim, signature.stamp), signature.mac)) signed = true;
  }
  return signed;
}

function macOf(key: Uint8Array, { id, source }: Claim, stamp: Uint8Array): Uint8Array {
  // No length stands in front of the id: its own bytes are in the key already, so that none can be taken for another.
  const mac = createHmac('sha256', key).update(PREFIX).update(id, 'latin1').update(stamp);
  if (source !== undefined) {
    mac.update(source.address).update(Uint8Array.of(source.port >>> 8, source.port & 0xff));
  }
  return mac.digest();
}
