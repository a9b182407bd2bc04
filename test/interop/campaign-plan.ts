// The plan of each tunnel of the byte-exactness campaign (campaign.ts): a function of the seed and the tunnel's number.

import { seededRandom } from './seeded-random.ts';

/** By SNI; by SNI to a backend with a PROXY header; by CONNECT. */
export const ways = ['sni', 'proxied', 'connect'] as const;
export type Way = (typeof ways)[number];

/**
 * How it ends. `together`: each side sends FIN after its last byte. `client-first`, `backend-first`: the
 * other side starts sending after that FIN. `client-reset`, `backend-reset`: in the middle of the stream.
 */
const endings = ['together', 'client-first', 'backend-first', 'client-reset', 'backend-reset'] as const;
export type Ending = (typeof endings)[number];

export interface SidePlan {
  /** It sends `bytes` of the pool from this offset. */
  readonly offset: number;
  readonly bytes: number;
  /** Largest write. */
  readonly piece: number;
  /** Milliseconds to wait before each of its first writes. */
  readonly pauses: readonly number[];
  /** Milliseconds before it starts reading. */
  readonly readAfter: number;
  /** A slow reader pauses for `stopMs` after this many bytes. Infinity: never. */
  readonly stopEvery: number;
  readonly stopMs: number;
}

export interface TunnelPlan {
  readonly number: number;
  readonly way: Way;
  readonly ending: Ending;
  /** Largest piece of the first bytes, by which it is routed. */
  readonly firstPiece: number;
  readonly client: SidePlan;
  readonly backend: SidePlan;
}

const KIB = 1024;
const MIB = 1024 * KIB;
/** Most streams are small. A few exceed what the kernel buffers for a reader that has not started: about 4 MiB. */
const USUAL = 2 * MIB;
const LARGE = 12 * MIB;
const HELD_UP = 0.06;
/** Streams are slices of a pool of this size, each with its own offset. */
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

/** Number of bytes that a side sends: all, or about half if it resets. */
export function bytesSent(plan: TunnelPlan, side: 'client' | 'backend'): number {
  const { bytes } = plan[side];
  return plan.ending === `${side}-reset` ? Math.ceil(bytes / 2) : bytes;
}

export function isReset(plan: TunnelPlan): boolean {
  return plan.ending.endsWith('-reset');
}
