// Where the gateway is, as seen from here: at --address, at the address in the file, on this machine, or where DNS says.

import type { Route } from '../cluster/cluster.ts';
import { isLoopback } from '../config/address.ts';
import type { Config, Listener } from '../config/config.ts';
import type { Address, Network } from './network.ts';
import type { RunningGateway } from './running-gateway.ts';

const LOOPBACK = '127.0.0.1';
const EVERY_ADDRESS: ReadonlySet<string> = new Set(['', '0.0.0.0', '::']);

export interface Place {
  readonly listener: Listener;
  readonly at: Address;
}

export interface GatewayPlaces {
  /** Of each listener that can be reached, in the order of the file. */
  readonly all: readonly Place[];
  /** Undefined where no listener serves such routes, or its port is not known. */
  placeOf(route: Pick<Route, 'kind'>): Place | undefined;
  /** What names should resolve to; undefined where nothing says so. */
  readonly expected: readonly string[] | undefined;
  /** Only this machine reaches the gateway, so that its names need no DNS. */
  readonly isLocal: boolean;
}

export interface PlaceOptions {
  readonly config: Pick<Config, 'listen' | 'outputs'>;
  /** --address. */
  readonly given?: Address | undefined;
  readonly running: Pick<RunningGateway, 'listeners'> | undefined;
  readonly network: Pick<Network, 'dial'>;
  /** An address that DNS has for a host of the file. */
  readonly named: () => Promise<string | undefined>;
}

export async function findPlaces(options: PlaceOptions): Promise<GatewayPlaces> {
  const { config, given, network, named } = options;
  const all: Place[] = [];
  for (const listener of config.listen) {
    const port = portOf(listener, options);
    if (port === undefined) continue;
    const host = given?.host ?? (await hostOf(listener, port, network, named));
    all.push({ listener, at: { host, port } });
  }
  const hosts = config.listen.map(({ host }) => host);
  return {
    all,
    placeOf: ({ kind }) => all.find(({ listener }) => listener.only?.includes(kind) ?? true),
    expected: expectedOf(config, given),
    isLocal: given === undefined ? hosts.every(isLoopback) : isLoopback(given.host),
  };
}

/** A load balancer in front may have another port than the listener; then it is used for all of them. */
function portOf({ on, port }: Listener, { config, given, running }: PlaceOptions): number | undefined {
  const real = running?.listeners.find(listener => listener.on === on)?.address;
  const own = port === 0 ? portIn(real) : port;
  if (given === undefined) return own;
  const isListener = config.listen.some(
    listener => listener.port === given.port || portIn(realOf(running, listener.on)) === given.port,
  );
  return isListener && own !== undefined ? own : given.port;
}

function realOf(running: PlaceOptions['running'], on: string): string | undefined {
  return running?.listeners.find(listener => listener.on === on)?.address;
}

function portIn(address: string | undefined): number | undefined {
  return address === undefined ? undefined : Number(address.slice(address.lastIndexOf(':') + 1));
}

async function hostOf(
  { host }: Listener,
  port: number,
  network: PlaceOptions['network'],
  named: PlaceOptions['named'],
): Promise<string> {
  if (host === 'localhost') return LOOPBACK;
  if (!EVERY_ADDRESS.has(host)) return host;
  if ((await network.dial({ host: LOOPBACK, port })).ok) return LOOPBACK;
  return (await named()) ?? LOOPBACK;
}

function expectedOf(
  { listen, outputs }: PlaceOptions['config'],
  given: Address | undefined,
): readonly string[] | undefined {
  if (given !== undefined && !isLoopback(given.host)) return [given.host];
  const stated = outputs.flatMap(({ kind, options }) =>
    kind === 'dnsServer' || kind === 'dnsEndpoint' ? options.addresses : [],
  );
  if (stated.length > 0) return stated;
  const own = listen.map(({ host }) => host).filter(host => !EVERY_ADDRESS.has(host) && !isLoopback(host));
  return own.length === 0 ? undefined : own;
}
