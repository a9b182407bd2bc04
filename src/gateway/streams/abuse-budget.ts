// The abuse budget of one HTTP/2 connection: a token bucket for events that cost us work and get the client nothing.
// These are streams reset before they are answered (CVE-2023-44487), requests other than CONNECT, PING and SETTINGS.

/** Far above the need of a client that drops many tunnels at once. */
const BURST = 1000;
const PER_SECOND = 100;

export class AbuseBudget {
  #tokens = BURST;
  #refilledAt: number;

  constructor(now: number) {
    this.#refilledAt = now;
  }

  /** False when the budget is exhausted. Times in ms. */
  take(now: number): boolean {
    this.#tokens = Math.min(BURST, this.#tokens + ((now - this.#refilledAt) / 1000) * PER_SECOND);
    this.#refilledAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
