// Notices somebody else who keeps the endpoints of Service `default/kubernetes`: most often the API server itself,
// which does so unless it runs with --endpoint-reconciler-type=none. Two who undo each other's work every few
// seconds are worse for a cluster than either alone, so we stand back.

import { MANAGER } from './cluster-label.ts';
import type { EndpointSlice, Endpoints } from './kube-object.ts';

/** A write that was undone within this time was undone because of it. The API server looks every 10 s. */
const UNDONE_WITHIN_MS = 60_000;
const STAND_BACK_MS = 600_000;

export class ForeignWriter {
  readonly #written = new Map<string, number>();
  readonly #missed = new Map<string, number>();
  #until = Number.NEGATIVE_INFINITY;
  #manager: string | undefined;

  wrote(key: string, now: number): void {
    this.#written.set(key, now);
  }

  /** We have taken it away ourselves. */
  removed(key: string): void {
    this.#written.delete(key);
  }

  /** An object does not say what it should, or is not there: is that somebody's doing? */
  differs(key: string, existing: EndpointSlice | Endpoints | undefined, now: number): void {
    const at = this.#written.get(key);
    if (at === undefined || now - at > UNDONE_WITHIN_MS) return;
    // Deleted once, by a person or by an agent that makes it anew, is no reason to leave pods without endpoints.
    if (existing === undefined && !this.#isMissedAgain(key, now)) return;
    const manager = existing === undefined ? 'somebody who deletes them' : lastWriter(existing);
    // Another of us, which has seen more leases or fewer.
    if (manager === MANAGER) return;
    this.#manager = manager;
    this.#until = now + STAND_BACK_MS;
    this.#written.clear();
  }

  standsBack(now: number): boolean {
    return now < this.#until;
  }

  /** Who it is, until a write has lasted. */
  manager(now: number): string | undefined {
    if (this.standsBack(now)) return this.#manager;
    const isTrying = [this.#until, ...this.#written.values()].some(at => now - at <= UNDONE_WITHIN_MS);
    if (!isTrying) this.#manager = undefined;
    return this.#manager;
  }

  #isMissedAgain(key: string, now: number): boolean {
    const before = this.#missed.get(key);
    this.#missed.set(key, now);
    return before !== undefined && now - before <= UNDONE_WITHIN_MS;
  }
}

/** Both lists are atomic: whoever changed one last owns all of it. */
function lastWriter({ metadata: { managedFields = [] } }: EndpointSlice | Endpoints): string {
  const owner = managedFields.find(
    ({ fieldsV1 = {} }) => 'f:endpoints' in fieldsV1 || 'f:subsets' in fieldsV1,
  );
  return owner?.manager ?? 'an unknown writer';
}
