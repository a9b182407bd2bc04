// Detects another writer of the endpoints of Service `default/kubernetes`: usually the API server itself, unless it
// runs with --endpoint-reconciler-type=none. Two writers that revert each other every few seconds are worse for a
// cluster than either alone, so the agent backs off.

import { MANAGER } from './cluster-label.ts';
import type { EndpointSlice, Endpoints } from './kube-object.ts';

/** A write that is reverted within this time has a rival. The API server reconciles every 10 s. */
const REVERTED_WITHIN_MS = 60_000;
const BACK_OFF_MS = 600_000;

export class ForeignWriter {
  readonly #written = new Map<string, number>();
  readonly #missed = new Map<string, number>();
  #until = Number.NEGATIVE_INFINITY;
  #manager: string | undefined;

  wrote(key: string, now: number): void {
    this.#written.set(key, now);
  }

  /** We removed the object ourselves. */
  removed(key: string): void {
    this.#written.delete(key);
  }

  /** An object is missing or not as desired: decides whether another writer is responsible. */
  differs(key: string, existing: EndpointSlice | Endpoints | undefined, now: number): void {
    const at = this.#written.get(key);
    if (at === undefined || now - at > REVERTED_WITHIN_MS) return;
    // A single deletion, by a person or by an agent that recreates it, must not leave pods without endpoints.
    if (existing === undefined && !this.#isMissedAgain(key, now)) return;
    const manager = existing === undefined ? 'a writer that deletes them' : lastWriter(existing);
    // Another agent that sees different leases.
    if (manager === MANAGER) return;
    this.#manager = manager;
    this.#until = now + BACK_OFF_MS;
    this.#written.clear();
  }

  isBackingOff(now: number): boolean {
    return now < this.#until;
  }

  /** The other writer, until a write of ours has lasted. */
  manager(now: number): string | undefined {
    if (this.isBackingOff(now)) return this.#manager;
    const isTrying = [this.#until, ...this.#written.values()].some(at => now - at <= REVERTED_WITHIN_MS);
    if (!isTrying) this.#manager = undefined;
    return this.#manager;
  }

  #isMissedAgain(key: string, now: number): boolean {
    const before = this.#missed.get(key);
    this.#missed.set(key, now);
    return before !== undefined && now - before <= REVERTED_WITHIN_MS;
  }
}

/** Both lists are atomic: the last writer owns the whole list. */
function lastWriter({ metadata: { managedFields = [] } }: EndpointSlice | Endpoints): string {
  const owner = managedFields.find(
    ({ fieldsV1 = {} }) => 'f:endpoints' in fieldsV1 || 'f:subsets' in fieldsV1,
  );
  return owner?.manager ?? 'an unknown writer';
}
