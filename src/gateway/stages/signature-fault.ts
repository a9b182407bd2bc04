// Why a signature did not prove a cluster id: a closed set. A row and its record keep the index, the log says it in
// words (src/controller/bad-signature-log.ts); what the client hears is the same for all.

export const signatureFaults = [
  '',
  /** There is none, where the cluster or the gateway asks for one. */
  'missing',
  /** Not 53 bytes of version 1, or not base64url. */
  'malformed',
  /** Not made with a key of this id, or for another source. */
  'wrong',
  'too-old',
  'from-the-future',
  'replayed',
  /** Right, and there is no room to remember its nonce: it could be replayed. */
  'no-room',
  /** The same, as its cluster has used up its share of the room. */
  'share-used-up',
] as const;

export type SignatureFault = Exclude<(typeof signatureFaults)[number], ''>;

export const signatureFaultIndex = Object.fromEntries(
  signatureFaults.map((fault, index) => [fault, index]),
) as Record<SignatureFault, number>;
