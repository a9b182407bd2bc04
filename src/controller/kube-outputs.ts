// All API servers that the sources in the file name, and what is written to each of them.

import type { Logger } from 'pino';
import type { Origin } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { type Config, DEFAULT_LEASE, type SourceSettings } from '../config/config.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { type KubeServer, type KubeServers, serverKey } from '../kube/kube-servers.ts';
import type { ObjectFix } from '../outputs/fix-writer.ts';
import { newOutput } from '../outputs/new-output.ts';
import type { StatesInput } from '../outputs/object-states.ts';
import type { Output } from '../outputs/output.ts';
import type { Plan } from '../plan/plan.ts';
import type { ObservedSource } from '../sources/source-set.ts';
import { KubeServerSide } from './kube-server-side.ts';
import { Tenants } from './tenants.ts';

/** Statuses follow health at most this often. */
const REFRESH_MS = 1000;

export interface KubeSideOptions {
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

interface ServerSettings {
  readonly server: KubeServer;
  readonly sources: ReadonlySet<string>;
  /** Absent: everywhere. */
  readonly namespaces?: readonly string[];
}

export class KubeSide implements AsyncDisposable {
  readonly #options: KubeSideOptions;
  readonly #sides = new Map<string, KubeServerSide>();
  readonly #tenants: Tenants;
  #settings: ReadonlyMap<string, ServerSettings> = new Map();
  #outputs: readonly Output[] = [];
  #shared = '';
  #refresh: NodeJS.Timeout | undefined;

  constructor(options: KubeSideOptions) {
    const { version, keyOf, log, changed } = options;
    this.#options = options;
    this.#tenants = new Tenants({
      management: ({ origin }) => this.#apiOf(origin.source),
      isLeader: source => this.#sideOf(source)?.lease.isLeader() === true,
      version,
      keyOf,
      log,
      changed,
    });
  }

  /** Opens the servers that are new in the file, and closes those that are gone. */
  use(config: Config): void {
    const { lease = DEFAULT_LEASE, statusAnnotation = true, outputs, sources } = config;
    const { servers, identity, isUp, log, changed } = this.#options;
    const onPatched = ({ cluster, operations }: ObjectFix) =>
      log.info({ cluster: cluster.name, operations }, 'object completed');
    this.#settings = serversOf(sources);
    this.#outputs = outputs.map(newOutput).filter(output => output !== undefined);
    const shared = JSON.stringify([lease, statusAnnotation]);
    for (const [key, side] of this.#sides) {
      if (this.#settings.has(key) && shared === this.#shared) continue;
      this.#sides.delete(key);
      void side[Symbol.asyncDispose]();
    }
    this.#shared = shared;
    this.#tenants.use(config, `${lease.namespace}.${lease.name}`);
    for (const [key, { server }] of this.#settings) {
      if (this.#sides.has(key)) continue;
      const options = { servers, server, lease, identity, statusAnnotation, isUp, onPatched };
      this.#sides.set(
        key,
        new KubeServerSide(options, () => {
          this.#tenants.wake();
          changed();
        }),
      );
    }
  }

  /** After each plan. Nothing is written about clusters of a source that has not been listed yet. */
  update(plan: Plan, observed: readonly ObservedSource[], fixes: readonly ObjectFix[]): void {
    const synced = new Set(observed.filter(source => source.synced).map(({ name }) => name));
    for (const [key, side] of this.#sides) {
      const { sources = new Set<string>(), namespaces } = this.#settings.get(key) ?? {};
      const isHere = ({ source }: Origin) => sources.has(source) && synced.has(source);
      side.update({
        plan: { ...plan, clusters: plan.clusters.filter(({ origin }) => isHere(origin)) },
        sources: observed.filter(({ name }) => sources.has(name)),
        outputs: this.#outputs,
        fixes: fixes.filter(({ cluster }) => isHere(cluster.origin)),
        ...(namespaces && { namespaces }),
      });
    }
    const waiting = observed.filter(source => !source.synced).map(({ name }) => name);
    this.#tenants.update(
      plan.clusters.filter(({ origin }) => synced.has(origin.source)),
      new Set(waiting),
    );
    this.#refreshStates();
  }

  healthChanged(): void {
    if (this.#sides.size === 0) return;
    this.#refresh ??= setTimeout(() => {
      this.#refresh = undefined;
      this.#refreshStates();
    }, REFRESH_MS).unref();
  }

  get findings(): readonly Finding[] {
    return [...[...this.#sides.values()].flatMap(side => side.findings), ...this.#tenants.findings];
  }

  /** Holds the lease in every API server. */
  get isLeader(): boolean {
    return this.#sides.size > 0 && [...this.#sides.values()].every(({ lease }) => lease.isLeader());
  }

  /** Why something cannot be written, by server. */
  get errors(): readonly string[] {
    return [...this.#sides.values()].flatMap(({ error }) => error ?? []);
  }

  #sideOf(source: string): KubeServerSide | undefined {
    for (const [key, { sources }] of this.#settings) if (sources.has(source)) return this.#sides.get(key);
    return undefined;
  }

  #apiOf(source: string): KubeApi {
    const side = this.#sideOf(source);
    if (side === undefined) throw new Error(`Source '${source}' has no API server`);
    return side.api;
  }

  /** A first check that succeeds is no change of health, so those that are not known yet are looked at again. */
  #refreshStates(): void {
    const isUnknown = [...this.#sides.values()].map(side => side.refreshStates()).includes(true);
    if (isUnknown) this.healthChanged();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#refresh);
    await this.#tenants[Symbol.asyncDispose]();
    await Promise.all([...this.#sides.values()].map(side => side[Symbol.asyncDispose]()));
    this.#sides.clear();
  }
}

function serversOf(sources: readonly SourceSettings[]): ReadonlyMap<string, ServerSettings> {
  const found = new Map<string, ServerSettings>();
  for (const source of sources) {
    if (source.kind === 'directory') continue;
    const { kubeconfig, context, namespaces } = source.options;
    const server = { kubeconfig, context };
    const key = serverKey(server);
    const known = found.get(key);
    const everywhere = namespaces === undefined || (known !== undefined && known.namespaces === undefined);
    found.set(key, {
      server,
      sources: new Set([...(known?.sources ?? []), source.name]),
      ...(!everywhere && { namespaces: [...new Set([...(known?.namespaces ?? []), ...namespaces])] }),
    });
  }
  return found;
}
