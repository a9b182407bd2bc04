// Checks in one worker whether a signature proves a cluster id: made with that id's key from one of the secrets, close
// to our clock, and never used before in any worker. The nonce is spent in a second step, after every other check that
// could refuse the connection. verify-identity.ts calls both.

import { clusterKey } from '../../identity/cluster-key.ts';
import { type Claim, isSignedBy } from '../../identity/sign.ts';
import type { Parsed } from '../../wire/parsed.ts';
import type { Signature } from '../../wire/signature.ts';
import type { NonceShares } from '../shared/nonce-shares.ts';
import type { NonceTable } from '../shared/nonce-table.ts';
import type { SignatureFault } from './signature-fault.ts';

/** How far an agent's clock may be off from ours, in either direction. */
export const SIGNATURE_WINDOW_SECONDS = 60;
const WINDOW_MS = SIGNATURE_WINDOW_SECONDS * 1000;

/** Number of ids whose keys are cached: about 3 MiB. Deriving a key again costs as much as a verification, a few µs. */
const KEPT_KEYS = 10_000;

export interface Unproven {
  readonly fault: SignatureFault;
  /** For timestamps outside the window: how far they are from our clock. */
  readonly seconds: number;
}

/** The part of a valid signature that is kept until its nonce is spent. */
export type Proof = Pick<Signature, 'timeMs' | 'nonce'>;

export class IdentityVerifier {
  readonly #nonces: NonceTable;
  readonly #shares: Pick<NonceShares, 'take'>;
  readonly #now: () => number;
  #secrets: readonly Uint8Array[] = [];
  /** Id → its key under each secret. Least recently used first. */
  readonly #keys = new Map<string, readonly Uint8Array[]>();

  /** `now` is the wall clock in ms. */
  constructor(nonces: NonceTable, shares: Pick<NonceShares, 'take'>, now: () => number = Date.now) {
    this.#nonces = nonces;
    this.#shares = shares;
    this.#now = now;
  }

  /** undefined when the signature proves the id, unless its nonce is used meanwhile. Call only for ids that exist. */
  verify(secrets: readonly Uint8Array[], claim: Claim, signature: Parsed<Signature>): Unproven | undefined {
    if (signature.kind !== 'found') return { fault: 'malformed', seconds: 0 };
    const { timeMs, nonce } = signature.value;
    // The key first: only someone who has it learns anything about the time.
    if (!isSignedBy(this.#keysOf(secrets, claim.id), claim, signature.value))
      return { fault: 'wrong', seconds: 0 };
    const now = this.#now();
    const untimely = judgeTime(timeMs, now);
    if (untimely !== undefined) return untimely;
    return this.#nonces.has(nonce, Math.floor(now / 1000)) ? { fault: 'replayed', seconds: 0 } : undefined;
  }

  /**
   * Spends the nonce of a signature that was just verified, for the cluster with that slot; `clusters` is the number of
   * clusters with an id. undefined on success. Checks the time again: a nonce that expired meanwhile would not be
   * stored.
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
