// Tenants whose `default/kubernetes` endpoints nobody writes from outside any more, since `tenantEndpoints` was taken out
// of the file. Said once: long enough for its Event, and less than the hour after which Events are written again.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Clock } from '../kube/clock.ts';

const SHOWN_MS = 1_800_000;

export class LeftEndpoints implements Disposable {
  readonly #clock: Clock;
  readonly #changed: () => void;
  #clusters: readonly Cluster[] = [];
  #hasAgents = false;
  #end = new AbortController();

  /** `changed()`: findings have changed. */
  constructor(clock: Clock, changed: () => void) {
    this.#clock = clock;
    this.#changed = changed;
  }

  /** `hasAgents`: agents in the tenants write the endpoints instead. */
  set(clusters: readonly Cluster[], hasAgents: boolean): void {
    this.#end.abort();
    const had = this.#clusters.length > 0;
    this.#clusters = clusters;
    this.#hasAgents = hasAgents;
    if (had || clusters.length > 0) this.#changed();
    if (clusters.length === 0) return;
    this.#end = new AbortController();
    void this.#forgetLater(this.#end.signal);
  }

  /** Clusters that are gone, and not only `waiting` to be listed again, have no endpoints. */
  update(clusters: readonly Cluster[], waiting: ReadonlySet<string>): void {
    if (this.#clusters.length === 0) return;
    const names = new Set(clusters.map(({ name }) => name));
    this.#clusters = this.#clusters.filter(
      ({ name, origin }) => names.has(name) || waiting.has(origin.source),
    );
  }

  get findings(): readonly Finding[] {
    const who = this.#hasAgents ? 'its agents keep them up to date' : 'nobody keeps them up to date';
    const text = `tenantEndpoints was taken out of the file: the endpoints of default/kubernetes in the tenant stay as they are, and from now on ${who}`;
    const fix = this.#hasAgents ? '' : 'Put tenantEndpoints back, or write them otherwise: pods need them';
    return this.#clusters.map(({ name: cluster, origin }) => ({
      cluster,
      origin,
      severity: 'info',
      code: 'EndpointsLeft',
      text,
      fix,
    }));
  }

  [Symbol.dispose](): void {
    this.#end.abort();
  }

  async #forgetLater(signal: AbortSignal): Promise<void> {
    await this.#clock.wait(SHOWN_MS, signal);
    if (!signal.aborted) this.set([], false);
  }
}
