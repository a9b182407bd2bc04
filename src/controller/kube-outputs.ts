// All API servers that the file names, and what is written to each of them.

import type { Logger } from 'pino';
import type { Origin } from '../cluster/cluster.ts';
import { areSameFindings, type Finding } from '../cluster/finding.ts';
import { type Config, DEFAULT_LEASE } from '../config/config.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { KubeServers } from '../kube/kube-servers.ts';
import type { ObjectFix } from '../outputs/fix-writer.ts';
import { newOutput } from '../outputs/new-output.ts';
import type { StatesInput } from '../outputs/object-states.ts';
import type { Output } from '../outputs/output.ts';
import { type ServerSources, serversOf } from '../outputs/servers-of.ts';
import type { Plan } from '../plan/plan.ts';
import type { ObservedSource } from '../sources/source-set.ts';
import { ServerOutputs } from './server-outputs.ts';
import { Tenants } from './tenants.ts';

/** Statuses follow health at most this often. */
const REFRESH_MS = 1000;

export interface KubeOutputsOptions {
  readonly servers: KubeServers;
  /** Of this process, and of no other. */
  readonly identity: string;
  readonly isUp: StatesInput['isUp'];
  readonly log: Logger;
  readonly version: string;
  /** The key that signs a cluster's id; undefined without `identity.secretFile`. */
  readonly keyOf: () => ((id: string) => string) | undefined;
  /** Findings or leadership have changed. */
  readonly changed: () => void;
}

export class KubeOutputs implements AsyncDisposable {
  readonly #options: KubeOutputsOptions;
  readonly #byServer = new Map<string, ServerOutputs>();
  readonly #tenants: Tenants;
  #servers: readonly ServerSources[] = [];
  #outputs: readonly Output[] = [];
  #shared = '';
  #refresh: NodeJS.Timeout | undefined;

  constructor(options: KubeOutputsOptions) {
    const { version, keyOf, log, changed } = options;
    this.#options = options;
    this.#tenants = new Tenants({
      management: ({ origin }) => this.#apiOf(origin.source),
      isLeader: source => this.#outputsOf(source)?.lease.isLeader() === true,
      version,
      keyOf,
      log,
      changed,
    });
  }

  /**
   * Opens the servers that are new in the file. Those whose last source is gone stay until the process ends, without
   * sources: what was written there is removed.
   */
  use(config: Config): void {
    const { lease = DEFAULT_LEASE, statusAnnotation = true, outputs } = config;
    const { servers, identity, isUp, log, changed } = this.#options;
    const onPatched = ({ cluster, operations }: ObjectFix) =>
      log.info({ cluster: cluster.name, operations }, 'object completed');
    const current = serversOf(config);
    const keys = new Set(current.map(({ key }) => key));
    const gone = this.#servers
      .filter(({ key }) => !keys.has(key))
      .map(one => ({ ...one, sources: [], hasFiles: false }));
    this.#servers = [...current, ...gone];
    const context = { leaseNamespace: lease.namespace };
    this.#outputs = outputs.flatMap(settings => newOutput(settings, context) ?? []);
    const shared = JSON.stringify([lease, statusAnnotation]);
    if (shared !== this.#shared) {
      for (const former of this.#byServer.values()) void former[Symbol.asyncDispose]();
      this.#byServer.clear();
    }
    this.#shared = shared;
    this.#tenants.use(config, `${lease.namespace}.${lease.name}`);
    for (const { key, server } of this.#servers) {
      if (this.#byServer.has(key)) continue;
      const options = { servers, server, lease, identity, statusAnnotation, isUp, onPatched };
      this.#byServer.set(
        key,
        new ServerOutputs(options, () => {
          this.#tenants.wake();
          changed();
        }),
      );
    }
  }

  /** After each plan. Nothing is written about clusters of a source that has not been listed yet. */
  update(plan: Plan, observed: readonly ObservedSource[], fixes: readonly ObjectFix[]): void {
    const before = this.findings;
    const synced = new Set(observed.filter(source => source.synced).map(({ name }) => name));
    const inKubernetes = new Set(this.#servers.flatMap(({ sources }) => sources.map(({ name }) => name)));
    const directories = observed.filter(({ name }) => !inKubernetes.has(name));
    const waiting = new Set(observed.filter(source => !source.synced).map(({ name }) => name));
    for (const { key, sources, namespaces, hasFiles = false } of this.#servers) {
      const names = new Set(sources.map(({ name }) => name));
      const isHere = ({ source, object }: Origin) =>
        object === undefined ? hasFiles && !waiting.has(source) : names.has(source) && synced.has(source);
      this.#byServer.get(key)?.update({
        plan: { ...plan, clusters: plan.clusters.filter(({ origin }) => isHere(origin)) },
        sources: observed.filter(({ name }) => names.has(name)),
        directories: hasFiles ? directories : [],
        outputs: this.#outputs,
        fixes: fixes.filter(({ cluster }) => isHere(cluster.origin)),
        ...(namespaces && { namespaces }),
      });
    }
    this.#tenants.update(
      plan.clusters.filter(({ origin }) => synced.has(origin.source)),
      waiting,
    );
    this.#refreshStates();
    // This plan was made with the findings before it; only another one has those that it leads to.
    if (!areSameFindings(before, this.findings)) this.#options.changed();
  }

  healthChanged(): void {
    if (this.#byServer.size === 0) return;
    this.#refresh ??= setTimeout(() => {
      this.#refresh = undefined;
      this.#refreshStates();
    }, REFRESH_MS).unref();
  }

  get findings(): readonly Finding[] {
    return [...[...this.#byServer.values()].flatMap(({ findings }) => findings), ...this.#tenants.findings];
  }

  /** Holds the lease in every API server that has a source, or objects of clusters of files. */
  get isLeader(): boolean {
    const used = this.#servers.filter(({ sources, hasFiles }) => sources.length > 0 || hasFiles === true);
    return used.length > 0 && used.every(({ key }) => this.#byServer.get(key)?.lease.isLeader() === true);
  }

  /** Why something cannot be written, by server. */
  get errors(): readonly string[] {
    return [...this.#byServer.values()].flatMap(({ error }) => error ?? []);
  }

  #outputsOf(source: string): ServerOutputs | undefined {
    const server = this.#servers.find(({ sources }) => sources.some(({ name }) => name === source));
    return server && this.#byServer.get(server.key);
  }

  #apiOf(source: string): KubeApi {
    const outputs = this.#outputsOf(source);
    if (outputs === undefined) throw new Error(`Source '${source}' has no API server`);
    return outputs.api;
  }

  /** A first check that succeeds is no change of health, so those that are not known yet are looked at again. */
  #refreshStates(): void {
    const isUnknown = [...this.#byServer.values()].map(one => one.refreshStates()).includes(true);
    if (isUnknown) this.healthChanged();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#refresh);
    await this.#tenants[Symbol.asyncDispose]();
    await Promise.all([...this.#byServer.values()].map(one => one[Symbol.asyncDispose]()));
    this.#byServer.clear();
  }
}
