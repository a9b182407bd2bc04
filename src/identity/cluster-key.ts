// The key of one cluster: made of a secret that only gateways have, and handed to the agents of that cluster. It
// tells nothing about the secret nor about other clusters' keys.

import { hkdfSync } from 'node:crypto';

const KEY_BYTES = 32;
const noSalt = new Uint8Array(0);

/** HKDF-SHA-256 (RFC 5869). `id` is in the form that causeway.yaml allows, so that it is ASCII. */
export function clusterKey(secret: Uint8Array, id: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, noSalt, `causeway cluster ${id}`, KEY_BYTES));
}
