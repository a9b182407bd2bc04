// The outputs `dnsServer`: a DNS server for each, which answers for the hosts of the plan. An edit of the file opens the new
// ones before anything else changes, so that a port that is taken refuses the edit as a whole.

import type { Logger } from 'pino';
import type { Config, OutputSettings } from '../config/config.ts';
import { nextSerial, type ServedNames, servedNames } from '../dns/served-zones.ts';
import { DnsServer } from '../dns/server/dns-server.ts';
import type { Plan } from '../plan/plan.ts';

type DnsSettings = Extract<OutputSettings, { kind: 'dnsServer' }>;

export interface DnsOutputsOptions {
  readonly log: Logger;
  /** Clusters may be missing, since a source has not been listed yet. */
  readonly isPartial: () => boolean;
}

/** Servers that are open and not served yet. */
export interface DnsChange {
  /** Closes those that are no longer in the file. */
  commit(): void;
  /** The edit was refused. */
  abandon(): void;
}

interface Served {
  readonly settings: DnsSettings;
  readonly server: DnsServer;
}

export class DnsOutputs implements AsyncDisposable {
  readonly #options: DnsOutputsOptions;
  /** By listening address, as in the file. */
  #servers = new Map<string, Served>();
  #serial = 0;
  #last: { readonly plan: Plan; readonly config: Config; readonly isPartial: boolean } | undefined;
  #isTaken = false;
  #isClosed = false;

  constructor(options: DnsOutputsOptions) {
    this.#options = options;
  }

  /** As `address:port`. */
  get addresses(): readonly string[] {
    return [...this.#servers.values()].flatMap(({ server }) => server.addresses);
  }

  /** Queries by rcode, over all servers; undefined without one. */
  get queries(): ReadonlyMap<string, number> | undefined {
    if (this.#servers.size === 0) return undefined;
    const sums = new Map<string, number>();
    for (const { server } of this.#servers.values())
      for (const [rcode, count] of server.queries) sums.set(rcode, (sums.get(rcode) ?? 0) + count);
    return sums;
  }

  /** `isTaken`: a process that this one replaces may have the same ports. Throws a ListenError. */
  async start(config: Config, plan: Plan, isTaken: boolean): Promise<void> {
    this.#isTaken = isTaken;
    (await this.open(config, plan)).commit();
    this.#isTaken = false;
    this.update(config, plan);
  }

  /** Opens the servers that are new in this file. Throws a ListenError. */
  async open(config: Config, plan: Plan): Promise<DnsChange> {
    const { log } = this.#options;
    const next = new Map<string, Served>();
    const opened: DnsServer[] = [];
    const abandon = () => closeAll(opened);
    try {
      for (const settings of dnsServersOf(config)) {
        const { on } = settings.options;
        const key = JSON.stringify(on);
        const known = this.#servers.get(key);
        const name = `${on.host.includes(':') ? `[${on.host}]` : on.host}:${on.port} (${settings.name}.on)`;
        const server =
          known?.server ??
          (await DnsServer.start({
            on,
            name,
            isShared: true,
            isTaken: this.#isTaken,
            names: this.#names(settings, config, plan),
            onTrouble: (message, details) => log.warn({ output: settings.name, ...details }, message),
          }));
        if (known === undefined) opened.push(server);
        next.set(key, { settings, server });
      }
    } catch (error) {
      abandon();
      throw error;
    }
    if (this.#isClosed) abandon();
    const commit = () => {
      const gone = [...this.#servers].filter(([key]) => !next.has(key)).map(([, { server }]) => server);
      this.#servers = next;
      this.#last = undefined;
      closeAll(gone);
    };
    return { commit, abandon };
  }

  /** Answers for the hosts of this plan from now on. */
  update(config: Config, plan: Plan): void {
    const last = this.#last;
    const isPartial = this.#options.isPartial();
    const isSame =
      last?.config === config && last.isPartial === isPartial && areSame(last.plan.clusters, plan.clusters);
    if (isSame || this.#servers.size === 0) return;
    this.#last = { plan, config, isPartial };
    for (const { settings, server } of this.#servers.values())
      server.use(this.#names(settings, config, plan));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await Promise.all(Array.from(this.#servers.values(), ({ server }) => server[Symbol.asyncDispose]()));
    this.#servers.clear();
  }

  #names({ options }: DnsSettings, { tunnel }: Config, { clusters }: Plan): ServedNames {
    const { addresses, targets, ttlMs, zones, nameServers } = options;
    this.#serial = nextSerial(this.#serial);
    return servedNames(clusters, {
      addresses,
      targets,
      ttl: Math.floor(ttlMs / 1000),
      serial: this.#serial,
      hosts: tunnel?.hosts ?? [],
      zones,
      nameServers,
      isPartial: this.#options.isPartial(),
    });
  }
}

function dnsServersOf({ outputs }: Config): readonly DnsSettings[] {
  return outputs.filter((output): output is DnsSettings => output.kind === 'dnsServer');
}

/** Nothing waits for the end of a server. */
function closeAll(servers: readonly DnsServer[]): void {
  for (const server of servers) void server[Symbol.asyncDispose]();
}

function areSame(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.length === others.length && some.every((one, index) => one === others[index]);
}
