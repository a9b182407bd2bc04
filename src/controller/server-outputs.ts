// What is written to one API server: the objects of outputs, Events, and the status of the objects that clusters come
// from. All of it only by the replica that holds the lease there.

import type { Finding } from '../cluster/finding.ts';
import type { Lease } from '../config/config.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { KubeServer, KubeServers } from '../kube/kube-servers.ts';
import { type LeaderLease, openLeaderLease } from '../kube/leader-lease.ts';
import { openEventWriter } from '../outputs/event-writer.ts';
import { FixWriter, type ObjectFix } from '../outputs/fix-writer.ts';
import { outputResources } from '../outputs/new-output.ts';
import { type ObjectState, objectStates, type StatesInput } from '../outputs/object-states.ts';
import type { Output } from '../outputs/output.ts';
import { writeGuard } from '../outputs/prune-guard.ts';
import { openStatusWriter, type StateWriter } from '../outputs/status-writer.ts';
import { type ObjectWriter, openObjectWriter } from '../outputs/write-objects.ts';
import type { Plan } from '../plan/plan.ts';
import type { ObservedSource } from '../sources/source-set.ts';

export interface ServerOutputsOptions {
  readonly servers: KubeServers;
  readonly server: KubeServer;
  readonly lease: Lease;
  /** Of this process, and of no other. */
  readonly identity: string;
  readonly statusAnnotation: boolean;
  /** Health of a backend; null until its first check. */
  readonly isUp: StatesInput['isUp'];
  /** An object was patched, since its source has `fix: true`. */
  readonly onPatched: (fix: ObjectFix) => void;
}

/** All that concerns this server. */
export interface ServerUpdate {
  /** With the clusters of this server's sources, and those of files if their objects are here; and all findings. */
  readonly plan: Plan;
  readonly sources: readonly ObservedSource[];
  /** Those of files whose objects are here. */
  readonly directories: readonly ObservedSource[];
  readonly outputs: readonly Output[];
  /** What to add to the objects of these clusters. */
  readonly fixes: readonly ObjectFix[];
  /** Where clusters can be. Absent: everywhere. */
  readonly namespaces?: readonly string[];
}

export class ServerOutputs implements AsyncDisposable {
  readonly api: KubeApi;
  readonly lease: LeaderLease;
  readonly #isUp: StatesInput['isUp'];
  readonly #leaseClient: KubeApi & Disposable;
  readonly #writer: ObjectWriter;
  readonly #states: readonly StateWriter[];
  readonly #fixes: FixWriter;
  #desired: readonly Finding[] = [];
  #update: ServerUpdate | undefined;

  /** `changed()`: findings or leadership have changed. */
  constructor(options: ServerOutputsOptions, changed: () => void) {
    const { servers, server, lease, identity, statusAnnotation: enabled } = options;
    this.#isUp = options.isUp;
    this.api = servers.api(server);
    // A client of its own, lest renewals wait behind other calls.
    this.#leaseClient = servers.open(server);
    this.lease = openLeaderLease(this.#leaseClient, { ...lease, identity }, () => {
      this.#writer.wake();
      // Before the writers look again: what they were given may be from the last time that we led.
      this.refreshStates();
      changed();
    });
    const instance = `${lease.namespace}.${lease.name}`;
    const isLeader = () => this.lease.isLeader();
    const known = outputResources;
    this.#writer = openObjectWriter({ api: this.api, instance, lease: this.lease, known }, changed);
    this.#fixes = new FixWriter(this.api, { isLeader, onPatched: options.onPatched });
    this.#states = [
      openEventWriter(this.api, { isLeader, instance: identity }),
      openStatusWriter(this.api, { isLeader, enabled }),
    ];
  }

  get findings(): readonly Finding[] {
    return [...this.#desired, ...this.#writer.findings(), ...this.#fixes.findings];
  }

  /** Why something cannot be written, in a sentence. */
  get error(): string | undefined {
    return (
      this.lease.error ?? this.#writer.error ?? this.#states.find(({ error }) => error !== undefined)?.error
    );
  }

  update(update: ServerUpdate): void {
    const { plan, sources, directories, outputs, fixes, namespaces } = update;
    this.#fixes.update(fixes);
    this.#update = update;
    const desired = outputs.map(output => output.desired(plan));
    this.#desired = desired.flatMap(({ findings }) => findings);
    this.#writer.write(
      desired.flatMap(({ objects }) => objects),
      writeGuard([...sources, ...directories], outputs, namespaces),
    );
  }

  /** Health may have changed. True if some of it is not known yet. */
  refreshStates(): boolean {
    // Objects of a source that is being listed again have not lost their status.
    if (this.#update === undefined || this.#update.sources.some(({ synced }) => !synced)) return false;
    // Nobody else writes them.
    if (!this.lease.isLeader()) return false;
    const states = this.#objectStates(this.#update);
    for (const writer of this.#states) writer.update(states);
    return states.some(({ status }) => status === undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#writer, this.#fixes, ...this.#states].map(each => each[Symbol.asyncDispose]()));
    await this.lease[Symbol.asyncDispose]();
    this.#leaseClient[Symbol.dispose]();
  }

  /** Only of objects in this server. */
  #objectStates({ plan, sources }: ServerUpdate): readonly ObjectState[] {
    const names = new Set(sources.map(({ name }) => name));
    const findings = plan.findings.filter(({ origin }) => origin === undefined || names.has(origin.source));
    return objectStates({ clusters: plan.clusters, findings, isUp: this.#isUp });
  }
}
