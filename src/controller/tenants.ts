// What is written inside tenants: the agent (`tenantAgent`) and the endpoints of Service `default/kubernetes`
// (`tenantEndpoints`), with each tenant's admin kubeconfig. Every tenant fails alone.

import type { Logger } from 'pino';
import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Config, OutputOptions, OutputSettings } from '../config/config.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { LeftEndpoints } from '../outputs/left-endpoints.ts';
import { openServingCertificates, type ServingCertificates } from '../outputs/serving-certificates.ts';
import { openTenantAccess, type TenantAccess, type TenantAccessOptions } from '../outputs/tenant-access.ts';
import {
  rememberTenantAgents,
  type TenantAgent,
  tenantAgentResources,
} from '../outputs/tenant-agent-objects.ts';
import { openTenantEndpoints, type TenantEndpoints } from '../outputs/tenant-endpoints.ts';
import { type ObjectWriter, openObjectWriter } from '../outputs/write-objects.ts';

export interface TenantsOptions {
  /** The API server that has the Secrets of this cluster: that of its source. */
  readonly management: (cluster: Cluster) => KubeApi;
  /** Whether this replica writes about clusters of that source. */
  readonly isLeader: (source: string) => boolean;
  readonly version: string;
  /** The key that signs a cluster's id; undefined without `identity.secretFile`. */
  readonly keyOf: () => ((id: string) => string) | undefined;
  readonly log: Logger;
  /** Findings have changed. */
  readonly changed: () => void;
  readonly clock?: Clock;
  readonly openClient?: TenantAccessOptions['openClient'];
}

interface Tenant {
  readonly api: KubeApi;
  readonly writer: ObjectWriter;
}

const NONE: ReadonlySet<string> = new Set();

export class Tenants implements AsyncDisposable {
  readonly #options: TenantsOptions;
  readonly #access: TenantAccess;
  readonly #certificates: ServingCertificates;
  readonly #writers = new Map<string, Tenant>();
  #instance = '';
  #agentOf: ((cluster: Cluster) => TenantAgent) | undefined;
  /** Of the settings that #agentOf was made for. */
  #agentKey = '';
  /** The agents of `terminate` need the API server's certificate. */
  #needsCertificates = false;
  #endpoints: TenantEndpoints | undefined;
  #endpointsAddress: string | undefined;
  readonly #left: LeftEndpoints;
  #clusters: readonly Cluster[] = [];
  #described: readonly Finding[] = [];

  constructor(options: TenantsOptions) {
    const { management, changed, clock = systemClock, openClient } = options;
    this.#options = options;
    this.#access = openTenantAccess({ management, clock, ...(openClient && { openClient }) }, changed);
    this.#left = new LeftEndpoints(clock, changed);
    // Only the replica that writes somewhere needs any.
    const isLeader = () => this.#clusters.some(({ origin }) => options.isLeader(origin.source));
    this.#certificates = openServingCertificates({ management, isLeader, clock }, () => {
      this.#update(this.#clusters);
      changed();
    });
  }

  use(config: Config, instance: string): void {
    const agent = optionsOf(config.outputs, 'tenantAgent');
    const endpoints = optionsOf(config.outputs, 'tenantEndpoints');
    const keyOf = this.#options.keyOf();
    const context = {
      version: this.#options.version,
      ...(keyOf !== undefined && { keyOf }),
      certificateOf: (cluster: Cluster) => this.#certificates.certificateOf(cluster),
      writesEndpoints: endpoints === undefined,
      tunnelHosts: config.tunnel?.hosts ?? [],
    };
    // The key itself changes with the secret.
    const key = JSON.stringify([agent, endpoints, context.tunnelHosts, keyOf?.('')]);
    const isChanged = key !== this.#agentKey;
    if (isChanged) this.#agentOf = agent && rememberTenantAgents(agent, context);
    this.#agentKey = key;
    this.#needsCertificates = agent?.uplink === 'terminate';
    if (instance !== this.#instance) this.#closeWriters();
    this.#instance = instance;
    this.#useEndpoints(endpoints?.address);
    if (isChanged) this.#endpoints?.expectChanges();
  }

  /** All clusters that have been listed. Those of sources that are `waiting` to be listed again stay as they were. */
  update(clusters: readonly Cluster[], waiting: ReadonlySet<string> = NONE): void {
    this.#left.update(clusters, waiting);
    this.#update(clusters, waiting);
  }

  get findings(): readonly Finding[] {
    return [
      ...this.#described,
      ...this.#access.findings,
      ...this.#certificates.findings,
      ...(this.#endpoints?.findings ?? []),
      ...this.#left.findings,
      ...[...this.#writers.values()].flatMap(({ writer }) => writer.findings()),
    ];
  }

  /** Leadership may have changed. */
  wake(): void {
    this.#update(this.#clusters);
    for (const { writer } of this.#writers.values()) writer.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const writers = [...this.#writers.values()].map(({ writer }) => writer);
    const all = [this.#certificates, ...writers, ...(this.#endpoints === undefined ? [] : [this.#endpoints])];
    await Promise.all(all.map(each => each[Symbol.asyncDispose]()));
    this.#left[Symbol.dispose]();
    this.#access[Symbol.dispose]();
  }

  #update(clusters: readonly Cluster[], waiting: ReadonlySet<string> = NONE): void {
    const isUsed = this.#agentOf !== undefined || this.#endpoints !== undefined || this.#writers.size > 0;
    const listed = clusters.filter(({ controlPlane }) => controlPlane?.kubeconfig !== undefined);
    const kept = this.#clusters.filter(({ origin }) => waiting.has(origin.source));
    const tenants = isUsed ? [...listed, ...kept] : [];
    this.#clusters = tenants;
    this.#access.update(tenants);
    this.#certificates.update(this.#needsCertificates ? tenants : []);
    this.#endpoints?.update(tenants.filter(({ origin }) => this.#options.isLeader(origin.source)));
    const names = new Set(tenants.map(({ name }) => name));
    for (const [name, { writer }] of this.#writers) if (!names.has(name)) this.#close(name, writer);
    this.#described = tenants.flatMap(cluster => this.#writeAgent(cluster));
  }

  /** An agent that cannot be described now stays as it is. Without the output, what was written is removed. */
  #writeAgent(cluster: Cluster): readonly Finding[] {
    const { objects, findings } = this.#agentOf?.(cluster) ?? { objects: [], findings: [] };
    const writer = this.#writerOf(cluster);
    if (writer === undefined || objects === undefined) return findings;
    const source = new Set([cluster.origin.source]);
    writer.write(objects, {
      configured: source,
      complete: source,
      nonEmpty: source,
      paused: cluster.controlPlane?.isPaused === true ? new Set([cluster.name]) : NONE,
      resources: tenantAgentResources,
    });
    return findings;
  }

  /** Undefined for a tenant in which nothing was ever to be written. */
  #writerOf({ name, origin }: Cluster): ObjectWriter | undefined {
    const known = this.#writers.get(name);
    const api = this.#access.apiOf(name);
    if (known !== undefined && known.api === api) return known.writer;
    if (known !== undefined) this.#close(name, known.writer);
    if (api === undefined || this.#agentOf === undefined) return undefined;
    const { isLeader, changed } = this.#options;
    const lease = { isLeader: () => isLeader(origin.source) };
    const writer = openObjectWriter({ api, instance: this.#instance, lease, known: [] }, changed);
    this.#writers.set(name, { api, writer });
    return writer;
  }

  #closeWriters(): void {
    for (const [name, { writer }] of this.#writers) this.#close(name, writer);
  }

  #close(name: string, writer: ObjectWriter): void {
    this.#writers.delete(name);
    void writer[Symbol.asyncDispose]();
  }

  /** Objects that were written stay when the output is gone: pods would lose their API server. */
  #useEndpoints(address: string | undefined): void {
    if (address === this.#endpointsAddress) return;
    this.#endpointsAddress = address;
    const written = address === undefined ? (this.#endpoints?.written ?? []) : [];
    this.#left.set(written, this.#agentOf !== undefined);
    void this.#endpoints?.[Symbol.asyncDispose]();
    const { isLeader, log, changed, clock = systemClock } = this.#options;
    this.#endpoints =
      address === undefined
        ? undefined
        : openTenantEndpoints(
            {
              address,
              apiOf: cluster => this.#access.apiOf(cluster),
              isLeader: () => this.#clusters.some(({ origin }) => isLeader(origin.source)),
              log: (cluster, sentence) => log.info({ cluster }, sentence),
              clock,
            },
            changed,
          );
  }
}

function optionsOf<Kind extends keyof OutputOptions>(
  outputs: readonly OutputSettings[],
  kind: Kind,
): OutputOptions[Kind] | undefined {
  return outputs.find(output => output.kind === kind)?.options as OutputOptions[Kind] | undefined;
}
