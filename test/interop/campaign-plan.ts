// What each tunnel of the byte-exactness campaign does (campaign.ts): a function of the seed and the tunnel's number.

import { seededRandom } from './seeded-random.ts';

/** How it gets in: by SNI; by SNI to a backend that is sent a PROXY header; by CONNECT. */
export const ways = ['sni', 'proxied', 'connect'] as const;
export type Way = (typeof ways)[number];

/**
 * Who ends what, and when. `together`: each side sends FIN behind its last byte. `client-first`, `backend-first`: the
 * other side only begins when it has seen that FIN. `client-reset`, `backend-reset`: in the middle of it.
 */
const endings = ['together', 'client-first', 'backend-first', 'client-reset', 'backend-reset'] as const;
export type Ending = (typeof endings)[number];

export interface SidePlan {
  /** It sends `bytes` of the pool from here on. */
  readonly offset: number;
  readonly bytes: number;
  /** Largest write. */
  readonly piece: number;
  /** Before each of its first writes it waits so many ms. */
  readonly pauses: readonly number[];
  /** Before it reads at all, ms. */
  readonly readAfter: number;
  /** A slow reader stops for `ms` whenever it has read so many bytes. Infinity: it never stops. */
  readonly stopEvery: number;
  readonly stopMs: number;
}

export interface TunnelPlan {
  readonly number: number;
  readonly way: Way;
  readonly ending: Ending;
  /** The first bytes, by which it is routed, come in pieces of at most this. */
  readonly firstPiece: number;
  readonly client: SidePlan;
  readonly backend: SidePlan;
}

const KIB = 1024;
const MIB = 1024 * KIB;
/** Most streams are small. A few are more than the kernel holds for a reader that does not begin: about 4 MiB. */
const USUAL = 2 * MIB;
const LARGE = 12 * MIB;
const HELD_UP = 0.06;
/** What is sent is cut out of a pool of this size, each stream from a place of its own. */
export const POOL_BYTES = 32 * MIB;

export function planTunnel(seed: number, number: number): TunnelPlan {
  const random = seededRandom(seed, number);
  const [way, ending] = [random.pick(ways), random.pick(endings)];
  const firstPiece = random.chance(0.2) ? random.between(1, 40) : 4 * KIB;
  const heldUp = random.chance(HELD_UP) ? random.pick(['client', 'backend'] as const) : undefined;
  const side = (name: 'client' | 'backend'): SidePlan => {
    const usual = random.chance(0.05) ? 0 : random.magnitude(1, USUAL);
    const bytes = heldUp === name ? random.between(LARGE / 2, LARGE) : usual;
    const isSlow = random.chance(0.2);
    const isLate = random.chance(0.1) || (heldUp !== undefined && heldUp !== name);
    return {
      offset: random.between(0, POOL_BYTES - LARGE),
      bytes,
      piece: random.magnitude(Math.max(1, bytes / 50), 256 * KIB),
      pauses: Array.from({ length: random.between(0, 6) }, () =>
        random.chance(0.5) ? 0 : random.magnitude(1, 80),
      ),
      readAfter: isLate ? random.between(50, 400) : 0,
      stopEvery: isSlow ? random.magnitude(KIB, MIB) + bytes / 20 : Number.POSITIVE_INFINITY,
      stopMs: isSlow ? random.between(1, 40) : 0,
    };
  };
  return { number, way, ending, firstPiece, client: side('client'), backend: side('backend') };
}

/** How many bytes a side sends: all, or about half of it where it resets. */
export function bytesSent(plan: TunnelPlan, side: 'client' | 'backend'): number {
  const { bytes } = plan[side];
  return plan.ending === `${side}-reset` ? Math.ceil(bytes / 2) : bytes;
}

export function isReset(plan: TunnelPlan): boolean {
  return plan.ending.endsWith('-reset');
}
