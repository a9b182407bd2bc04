// Slows down password guessing: each source may try a few, then one every few seconds; other sources are not affected.
// Trying the same credentials again is free: a page or a scraper that keeps using an old password is not guessing, and
// must not lock out the person who knows the new one.

import { createHmac, randomBytes } from 'node:crypto';
import { formatIp, isIpv4, parseIp } from '../wire/ip-address.ts';

/** Wrong passwords that a source may try at once. */
const BURST = 10;
/** Then one in this time: 17,280 a day. */
const EVERY_MS = 5000;
/** The most recent ones are kept; at most about 3 MiB. */
const MAX_SOURCES = 4096;
/** Credentials remembered for each source. */
const REMEMBERED = 8;
/** An IPv6 host can use all addresses of its /64. */
const IPV6_HOST_BYTES = 8;

interface Source {
  /** Guesses left, as of `at`. */
  left: number;
  at: number;
  /** Digests of credentials that were tried and are not known to be right. */
  readonly tried: Set<string>;
  isSlowed: boolean;
}

export class GuessLimit {
  readonly #sources = new Map<string, Source>();
  readonly #now: () => number;
  readonly #onSlowed: (address: string) => void;
  /** Keyed, so that the digests are useless to anyone who reads the memory. */
  readonly #key = randomBytes(32);

  /** `onSlowed` is called once when a source has used up its guesses. */
  constructor(onSlowed: (address: string) => void = () => {}, now: () => number = () => performance.now()) {
    this.#onSlowed = onSlowed;
    this.#now = now;
  }

  /** Counts a guess. Returns 0 if it may be tried, otherwise the wait in ms. Call `right()` if it was correct. */
  take(address: string, credentials: string): number {
    const source = this.#sourceOf(address);
    const digest = this.#digest(credentials);
    if (source.tried.has(digest)) return 0;
    if (source.left < 1) {
      if (!source.isSlowed) this.#onSlowed(address);
      source.isSlowed = true;
      return (1 - source.left) * EVERY_MS;
    }
    source.left--;
    source.tried.add(digest);
    for (const oldest of source.tried) {
      if (source.tried.size <= REMEMBERED) break;
      source.tried.delete(oldest);
    }
    return 0;
  }

  /** The credentials were right: takes back the guess. */
  right(address: string, credentials: string): void {
    const source = this.#sources.get(sourceKey(address));
    if (source?.tried.delete(this.#digest(credentials)) === true)
      source.left = Math.min(BURST, source.left + 1);
  }

  /** For tests. */
  get size(): number {
    return this.#sources.size;
  }

  #sourceOf(address: string): Source {
    const now = this.#now();
    const key = sourceKey(address);
    const source = this.#sources.get(key) ?? { left: BURST, at: now, tried: new Set(), isSlowed: false };
    source.left = Math.min(BURST, source.left + (now - source.at) / EVERY_MS);
    source.at = now;
    if (source.left === BURST) source.isSlowed = false;
    // Most recent last: the first is forgotten first.
    this.#sources.delete(key);
    this.#sources.set(key, source);
    for (const oldest of this.#sources.keys()) {
      if (this.#sources.size <= MAX_SOURCES) break;
      this.#sources.delete(oldest);
    }
    return source;
  }

  #digest(credentials: string): string {
    return createHmac('sha256', this.#key).update(credentials).digest('base64').slice(0, 24);
  }
}

function sourceKey(address: string): string {
  // A link-local address ends with its interface.
  const ip = parseIp(address.replace(/%.*$/, ''));
  if (ip === undefined) return address;
  return isIpv4(ip, 0) ? formatIp(ip, 0) : Buffer.from(ip.subarray(0, IPV6_HOST_BYTES)).toString('hex');
}
