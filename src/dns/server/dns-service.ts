// `causeway dns serve`: answers for the hosts of a file, and follows the file. An edit that cannot be used is refused, and
// the last good one keeps answering.

import type { Logger } from 'pino';
import type { ListenAddress } from '../../config/config.ts';
import { formatMistake } from '../../config/mistake.ts';
import { readConfigAside } from '../../config/read-aside.ts';
import { changedSince, FileWatch } from '../../config/watch-file.ts';
import { ConfigError } from '../../controller/config-error.ts';
import { FILE_REFUSED } from '../../controller/gateway-process.ts';
import { nextSerial, type ServedNames, servedNames, servedZones } from '../served-zones.ts';
import { zonesOf } from '../zones.ts';
import { DnsServer } from './dns-server.ts';

/** As many as anyone reads. */
const MOST_HIDDEN = 10;

export interface DnsServiceOptions {
  readonly file: string;
  readonly on: ListenAddress;
  /** As written. */
  readonly onText: string;
  readonly addresses: readonly string[];
  readonly ttl: number;
  readonly zones: readonly string[];
  readonly nameServers: readonly string[];
  readonly log: Logger;
}

export class DnsService implements AsyncDisposable {
  readonly #options: DnsServiceOptions;
  readonly #server: DnsServer;
  readonly #drained = Promise.withResolvers<void>();
  #served: ServedNames;
  #watch: FileWatch | undefined;
  #reload: Promise<void> = Promise.resolve();

  private constructor(options: DnsServiceOptions, server: DnsServer, served: ServedNames) {
    this.#options = options;
    this.#server = server;
    this.#served = served;
  }

  /** Throws a ConfigError or a ListenError. */
  static async start(options: DnsServiceOptions, readAt = Date.now()): Promise<DnsService> {
    const served = await readZones(options, 0);
    const { on, onText, log } = options;
    const server = await DnsServer.start({
      on,
      name: onText,
      names: served,
      onTrouble: (message, details) => log.warn(details, message),
    });
    const service = new DnsService(options, server, served);
    service.#watch = await FileWatch.start(options.file, () => void service.reload());
    if (await changedSince(options.file, readAt)) void service.reload();
    return service;
  }

  get addresses(): readonly string[] {
    return this.#server.addresses;
  }

  /** The names of its zones. */
  get zones(): readonly string[] {
    return servedZones(this.#served).zones.map(({ name }) => name);
  }

  get drained(): Promise<void> {
    return this.#drained.promise;
  }

  /** A question and its answer are over within a moment: there is nothing to wait for. */
  async drain(): Promise<void> {
    this.#drained.resolve();
  }

  /** Rereads the file. One after the other. */
  reload(): Promise<void> {
    this.#reload = this.#reload.then(() => this.#reread());
    return this.#reload;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watch?.[Symbol.dispose]();
    await this.#reload;
    await this.#server[Symbol.asyncDispose]();
  }

  async #reread(): Promise<void> {
    const { log } = this.#options;
    try {
      this.#served = await readZones(this.#options, this.#served.serial);
      this.#server.use(this.#served);
      log.info({ zones: this.zones }, 'applied');
    } catch (error) {
      log.error({ error: error instanceof Error ? error.message : String(error) }, FILE_REFUSED);
    }
  }
}

async function readZones(options: DnsServiceOptions, lastSerial: number): Promise<ServedNames> {
  const { file, addresses, ttl, zones, nameServers, log } = options;
  const read = await readConfigAside(file);
  if (!read.ok) throw new ConfigError(read.mistakes.map(mistake => formatMistake(file, mistake)));
  const { config } = read;
  const served = servedNames(config.clusters, {
    addresses,
    targets: 'gateway',
    ttl,
    serial: nextSerial(lastSerial),
    hosts: config.tunnel?.hosts ?? [],
    zones,
    nameServers,
    isPartial: false,
  });
  const empty = emptyZone(served);
  if (empty !== undefined) throw new ConfigError([`${file}: ${empty}`]);
  if (config.sources.length > 0)
    log.warn({ file }, 'hosts of clusters that its sources bring are not answered; use output dnsServer');
  logHidden(served, log);
  return served;
}

function emptyZone({ names, zones }: ServedNames): string | undefined {
  if (names.size === 0) return 'no cluster has a host, so there is nothing to answer';
  const isUsed = (zone: string) => names.keys().some(host => host === zone || host.endsWith(`.${zone}`));
  const empty = zones.find(zone => !isUsed(zone));
  return empty === undefined ? undefined : `no cluster has a host in zone '${empty}'`;
}

/** The gateway serves such a name by its wildcard, but DNS does not. */
function logHidden({ names, zones }: ServedNames, log: Logger): void {
  const hidden = zonesOf(names.keys(), zones).flatMap(zone =>
    zone.names.flatMap(({ name, because }) => (because === undefined ? [] : [{ name, because }])),
  );
  for (const { name, because } of hidden.slice(0, MOST_HIDDEN))
    log.warn({ name, because }, 'name without an address; add it to the hosts if it is used');
}
