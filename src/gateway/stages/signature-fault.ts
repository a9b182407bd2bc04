// Why a signature did not prove a cluster id: a closed set. A row and its record store the index, and the log explains
// it (src/controller/bad-signature-log.ts); the client gets the same answer for all of them.

export const signatureFaults = [
  '',
  /** None was sent, although the cluster or the gateway requires one. */
  'missing',
  /** Not 53 bytes of version 1, or not base64url. */
  'malformed',
  /** Not made with this id's key, or made for another source. */
  'wrong',
  'too-old',
  'from-the-future',
  'replayed',
  /** Valid, but there is no room to remember its nonce, so it could be replayed. */
  'no-room',
  /** The same, because its cluster has used up its share of the room. */
  'share-used-up',
] as const;

export type SignatureFault = Exclude<(typeof signatureFaults)[number], ''>;

export const signatureFaultIndex = Object.fromEntries(
  signatureFaults.map((fault, index) => [fault, index]),
) as Record<SignatureFault, number>;
