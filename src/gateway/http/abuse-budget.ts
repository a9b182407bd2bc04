// How much of what costs us and brings a client nothing is borne on one HTTP/2 connection: streams that are reset
// before they are answered (CVE-2023-44487), requests that are no CONNECT, PING and SETTINGS. A token bucket.

/** Far above what a client needs that gives up a whole crowd of connections at once. */
const BURST = 1000;
const PER_SECOND = 100;

export class AbuseBudget {
  #left = BURST;
  #at: number;

  constructor(now: number) {
    this.#at = now;
  }

  /** False when it is at an end. Times in ms. */
  take(now: number): boolean {
    this.#left = Math.min(BURST, this.#left + ((now - this.#at) / 1000) * PER_SECOND);
    this.#at = now;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
