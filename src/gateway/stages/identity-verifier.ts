// Whether a signature proves a cluster id, in one worker: made with a key of that id from one of the secrets, close
// to our clock, and never used before by any worker. Its nonce is used in a second step, once everything else that may
// stand in the connection's way is judged. See verify-identity.ts for when these are asked.

import { clusterKey } from '../../identity/cluster-key.ts';
import { type Claim, isSignedBy } from '../../identity/sign.ts';
import type { Parsed } from '../../wire/parsed.ts';
import type { Signature } from '../../wire/signature.ts';
import type { NonceShares } from '../shared/nonce-shares.ts';
import type { NonceTable } from '../shared/nonce-table.ts';
import type { SignatureFault } from './signature-fault.ts';

/** How far an agent's clock may be from ours, either way. */
export const SIGNATURE_WINDOW_SECONDS = 60;
const WINDOW_MS = SIGNATURE_WINDOW_SECONDS * 1000;

/** Ids whose keys are kept: some 3 MiB. Making one again takes as long as a verification, a few µs. */
const KEPT_KEYS = 10_000;

export interface Unproven {
  readonly fault: SignatureFault;
  /** How far from our clock its time is, for those that are too far. */
  readonly seconds: number;
}

/** What is kept of a signature that is right, until its nonce is used. */
export type Proof = Pick<Signature, 'timeMs' | 'nonce'>;

export class IdentityVerifier {
  readonly #nonces: NonceTable;
  readonly #shares: Pick<NonceShares, 'take'>;
  readonly #now: () => number;
  #secrets: readonly Uint8Array[] = [];
  /** By id, of all secrets. The one that was not needed for longest comes first. */
  readonly #keys = new Map<string, readonly Uint8Array[]>();

  /** `now` is the wall clock in ms. */
  constructor(nonces: NonceTable, shares: Pick<NonceShares, 'take'>, now: () => number = Date.now) {
    this.#nonces = nonces;
    this.#shares = shares;
    this.#now = now;
  }

  /** undefined when it proves the id, as long as its nonce is not used meanwhile. Ask only for ids that exist. */
  verify(secrets: readonly Uint8Array[], claim: Claim, signature: Parsed<Signature>): Unproven | undefined {
    if (signature.kind !== 'found') return { fault: 'malformed', seconds: 0 };
    const { timeMs, nonce } = signature.value;
    // First: what is said about its time is then said about one who has the key.
    if (!isSignedBy(this.#keysOf(secrets, claim.id), claim, signature.value))
      return { fault: 'wrong', seconds: 0 };
    const now = this.#now();
    const untimely = judgeTime(timeMs, now);
    if (untimely !== undefined) return untimely;
    return this.#nonces.has(nonce, Math.floor(now / 1000)) ? { fault: 'replayed', seconds: 0 } : undefined;
  }

  /**
   * Uses the nonce of a signature that was right a moment ago, for the cluster with that slot, one of so many with an id.
   * undefined when that is done. Its time is looked at again: one that is over by now would not be remembered.
   */
  use({ timeMs, nonce }: Proof, slot: number, clusters: number): Unproven | undefined {
    const now = this.#now();
    const second = Math.floor(now / 1000);
    const until = Math.ceil((timeMs + WINDOW_MS) / 1000);
    const untimely = judgeTime(timeMs, now);
    if (untimely !== undefined) return untimely;
    if (!this.#shares.take(slot, clusters, until, second)) return { fault: 'share-used-up', seconds: 0 };
    switch (this.#nonces.use(nonce, until, second)) {
      case 'used':
        return { fault: 'replayed', seconds: 0 };
      case 'full':
        return { fault: 'no-room', seconds: 0 };
      default:
        return undefined;
    }
  }

  #keysOf(secrets: readonly Uint8Array[], id: string): readonly Uint8Array[] {
    if (secrets !== this.#secrets) {
      this.#secrets = secrets;
      this.#keys.clear();
    }
    const keys = this.#keys.get(id) ?? secrets.map(secret => clusterKey(secret, id));
    this.#keys.delete(id);
    this.#keys.set(id, keys);
    if (this.#keys.size > KEPT_KEYS) {
      const [oldest] = this.#keys.keys();
      this.#keys.delete(oldest);
    }
    return keys;
  }
}

function judgeTime(timeMs: number, now: number): Unproven | undefined {
  const seconds = Math.ceil(Math.abs(now - timeMs) / 1000);
  if (timeMs < now - WINDOW_MS) return { fault: 'too-old', seconds };
  return timeMs > now + WINDOW_MS ? { fault: 'from-the-future', seconds } : undefined;
}
