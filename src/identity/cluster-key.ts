// The key of one cluster: derived from a secret that only gateways have, and given to the agents of that cluster. It
// reveals neither the secret nor the keys of other clusters.

import { hkdfSync } from 'node:crypto';

const KEY_BYTES = 32;
const noSalt = new Uint8Array(0);

/** HKDF-SHA-256 (RFC 5869). `id` matches CLUSTER_ID, so it is ASCII. */
export function clusterKey(secret: Uint8Array, id: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, noSalt, `causeway cluster ${id}`, KEY_BYTES));
}
