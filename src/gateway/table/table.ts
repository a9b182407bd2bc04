// A worker's view of the clusters: every lookup that route and admit need, in hash maps that cost the same at 10 and at
// 100,000 hosts. The control thread sends changes cluster by cluster; applying one touches only that cluster's names.
// Each route, cluster and backend has a slot: its index in shared memory.

import {
  type Balance,
  balances,
  type ClusterLimits,
  type ProxyProtocol,
  proxyProtocols,
  type Uplink,
} from '../../cluster/cluster.ts';
import { CATCH_ALL, isHostname, wildcardOf } from '../../cluster/hostname.ts';
import type { SocketAddress } from '../io/reactor.ts';
import { TUNNEL_SLOT } from '../shared/shared-memory.ts';
import { hashText } from '../stages/rendezvous.ts';
import { type AllowList, compileAllowList } from './allow-list.ts';
import { socketAddresses } from './socket-addresses.ts';

/** The name of a route. */
export interface RouteSlot {
  readonly cluster: string;
  readonly route: string;
}

/** As sent by the control thread. */
export interface ClusterEntry {
  readonly slot: number;
  readonly name: string;
  readonly id?: string;
  readonly allow?: readonly string[];
  readonly limits: ClusterLimits;
  /** Absent if an id needs no signature. */
  readonly identityRequired?: true;
  readonly routes: readonly RouteEntry[];
}

export interface RouteEntry {
  readonly slot: number;
  readonly kind: string;
  readonly hosts: readonly string[];
  readonly connect: readonly string[];
  readonly alpn: readonly string[];
  readonly allow?: readonly string[];
  readonly proxyProtocol: ProxyProtocol;
  readonly redirect: boolean;
  readonly uplink?: Uplink;
  readonly balance: Balance;
  readonly backends: readonly BackendEntry[];
}

export interface BackendEntry {
  readonly slot: number;
  readonly text: string;
  readonly port: number;
  /** IP literals; empty while a name is not resolved. */
  readonly addresses: readonly string[];
}

/** Compiled for the stages. */
export interface TableCluster {
  readonly slot: number;
  readonly name: string;
  readonly id: string | undefined;
  readonly allow: AllowList | undefined;
  readonly limits: ClusterLimits;
  readonly identityRequired: boolean;
  readonly routes: readonly TableRoute[];
  readonly api: TableRoute | undefined;
}

export interface TableRoute {
  readonly slot: number;
  readonly kind: string;
  readonly hosts: readonly string[];
  readonly connect: readonly string[];
  readonly alpn: readonly string[];
  readonly allow: AllowList | undefined;
  readonly proxyProtocol: ProxyProtocol;
  readonly redirect: boolean;
  readonly uplink?: Uplink;
  readonly balance: Balance;
  readonly backends: readonly TableBackend[];
  /** Hashes of the backends' texts, for rendezvous hashing. */
  readonly hashes: readonly number[];
  readonly cluster: TableCluster;
}

export interface TableBackend {
  readonly slot: number;
  readonly text: string;
  readonly port: number;
  addresses: readonly SocketAddress[];
  /** Index of the address to try first: the one that worked last. */
  preferred: number;
}

export class Table {
  readonly clusters = new Map<string, TableCluster>();
  readonly ids = new Map<string, TableCluster>();
  /** Exact names, wildcards and `*` as written; several routes only where ALPN distinguishes them. */
  readonly #tls = new Map<string, readonly TableRoute[]>();
  /** The same for agents' tunnels, separate because they change independently. */
  readonly #tunnels = new Map<string, readonly TableRoute[]>();
  readonly #http = new Map<string, TableRoute>();
  readonly #connect = new Map<string, TableRoute>();
  readonly #routes: (TableRoute | undefined)[] = [];
  readonly #backends = new Map<number, TableBackend>();

  /** Removes everything that changes before adding anything, since a name may move from one cluster to another. */
  apply(removed: readonly string[], put: readonly ClusterEntry[]): void {
    for (const name of removed) this.#remove(name);
    for (const entry of put) this.#remove(entry.name);
    for (const entry of put) this.#put(compileCluster(entry));
  }

  #put(cluster: TableCluster): void {
    this.clusters.set(cluster.name, cluster);
    if (cluster.id !== undefined) this.ids.set(cluster.id, cluster);
    if (cluster.api !== undefined) for (const name of ownNames(cluster)) this.#connect.set(name, cluster.api);
    for (const route of cluster.routes) {
      this.#routes[route.slot] = route;
      for (const backend of route.backends) this.#backends.set(backend.slot, backend);
      for (const name of route.connect) this.#connect.set(name, route);
      for (const host of route.hosts) {
        if (route.kind === 'apps-http') this.#http.set(host, route);
        else this.#tls.set(host, alpnFirst(this.#tls.get(host), route));
      }
    }
  }

  #remove(name: string): void {
    const cluster = this.clusters.get(name);
    if (cluster === undefined) return;
    this.clusters.delete(name);
    if (cluster.id !== undefined) this.ids.delete(cluster.id);
    if (cluster.api !== undefined) for (const own of ownNames(cluster)) this.#connect.delete(own);
    for (const route of cluster.routes) {
      this.#routes[route.slot] = undefined;
      for (const backend of route.backends) this.#backends.delete(backend.slot);
      for (const connectName of route.connect) this.#connect.delete(connectName);
      const names = route.kind === 'apps-http' ? this.#http : this.#tls;
      for (const host of route.hosts) names.delete(host);
    }
  }

  /** The hosts of agents' tunnels. No cluster has them: the config reader ensures that. */
  putTunnels(hosts: readonly string[]): void {
    const routes = [tunnelRoute(hosts)];
    this.#tunnels.clear();
    for (const host of hosts) this.#tunnels.set(host, routes);
  }

  route(slot: number): TableRoute | undefined {
    return this.#routes[slot];
  }

  setAddresses(backendSlot: number, addresses: readonly string[]): void {
    const backend = this.#backends.get(backendSlot);
    if (backend === undefined) return;
    backend.addresses = socketAddresses(addresses, backend.port);
    backend.preferred = 0;
  }

  hasBackend(slot: number): boolean {
    return this.#backends.has(slot);
  }

  /** Routes for TLS without SNI, or whose SNI matches no other route. */
  get catchAll(): readonly TableRoute[] | undefined {
    return this.#tls.get(CATCH_ALL);
  }

  /** Routes that this SNI selects: those of the exact name, otherwise of the wildcard. Expects lower case. */
  routesByHost(host: string): readonly TableRoute[] | undefined {
    return this.#exact(host) ?? this.#wildcard(host);
  }

  /** The same among one cluster's routes, even if another has the exact name. */
  routesByHostIn(cluster: TableCluster, host: string): readonly TableRoute[] | undefined {
    const exact = this.#exact(host);
    if (exact?.[0].cluster === cluster) return exact;
    const wildcard = this.#wildcard(host);
    return wildcard?.[0].cluster === cluster ? wildcard : undefined;
  }

  /** Only legal names are stored, so a match is one. Wildcards are stored too, and are not names. */
  #exact(host: string): readonly TableRoute[] | undefined {
    return host.startsWith('*') ? undefined : (this.#tls.get(host) ?? this.#tunnels.get(host));
  }

  /** A wildcard matches legal names only: not `*.apps.x` itself, nor a label with a space. */
  #wildcard(host: string): readonly TableRoute[] | undefined {
    if (!isHostname(host)) return undefined;
    const wildcard = wildcardOf(host) ?? '';
    return this.#tls.get(wildcard) ?? this.#tunnels.get(wildcard);
  }

  /** By Host: the exact name, otherwise the wildcard, otherwise the catch-all. */
  httpRoute(host: string): TableRoute | undefined {
    const named = isHostname(host)
      ? (this.#http.get(host) ?? this.#http.get(wildcardOf(host) ?? ''))
      : undefined;
    return named ?? this.#http.get(CATCH_ALL);
  }

  /** A CONNECT name selects: a `connect` name its route; an id, a cluster name or an API host the `api`. */
  connectRoute(name: string): TableRoute | undefined {
    return this.#connect.get(name) ?? this.routesByHost(name)?.find(route => route.kind === 'api');
  }
}

/** Connections for these hosts are TLS of our own. */
function tunnelRoute(hosts: readonly string[]): TableRoute {
  const cluster: TableCluster = {
    slot: 0,
    name: '',
    id: undefined,
    allow: undefined,
    limits: {},
    identityRequired: false,
    routes: [],
    api: undefined,
  };
  return {
    slot: TUNNEL_SLOT,
    kind: '',
    hosts,
    connect: [],
    alpn: [],
    allow: undefined,
    proxyProtocol: 'none',
    redirect: false,
    balance: 'round-robin',
    backends: [],
    hashes: [],
    cluster,
  };
}

/** The CONNECT names of a cluster itself. CONNECT names are compared in lower case. */
function ownNames(cluster: TableCluster): string[] {
  return cluster.id === undefined ? [cluster.name] : [cluster.name, cluster.id.toLowerCase()];
}

/** Routes with an ALPN are tried before the one without. */
function alpnFirst(others: readonly TableRoute[] | undefined, route: TableRoute): readonly TableRoute[] {
  if (others === undefined) return [route];
  return [...others, route].toSorted((a, b) => Number(b.alpn.length > 0) - Number(a.alpn.length > 0));
}

function compileCluster(entry: ClusterEntry): TableCluster {
  const routes: TableRoute[] = [];
  const addresses = new Map<string, Uint8Array>();
  const cluster: { -readonly [key in keyof TableCluster]: TableCluster[key] } = {
    slot: entry.slot,
    name: entry.name,
    id: entry.id,
    allow: compileAllowList(entry.allow),
    limits: entry.limits,
    identityRequired: entry.identityRequired === true,
    routes,
    api: undefined,
  };
  for (const route of entry.routes) {
    const { slot, hosts, connect, alpn, redirect, uplink } = route;
    routes.push({
      slot,
      kind: shared(route.kind),
      hosts,
      connect: orNone(connect),
      alpn: orNone(alpn),
      allow: compileAllowList(route.allow),
      proxyProtocol: shared(route.proxyProtocol),
      redirect,
      ...(uplink && { uplink }),
      balance: shared(route.balance),
      backends: route.backends.map(backend => ({
        slot: backend.slot,
        text: backend.text,
        port: backend.port,
        addresses: socketAddresses(backend.addresses, backend.port, addresses),
        preferred: 0,
      })),
      hashes: route.backends.map(backend => hashText(backend.text)),
      cluster,
    });
  }
  cluster.api = routes.find(route => route.kind === 'api');
  return cluster;
}

/** Words that most routes have: a message between threads copies each of them for each route. */
const words = new Map(
  ['api', 'konnectivity', 'apps-https', 'apps-http', ...proxyProtocols, ...balances].map(word => [
    word,
    word,
  ]),
);

function shared<Word extends string>(word: Word): Word {
  return (words.get(word) ?? word) as Word;
}

const none: readonly string[] = [];

function orNone(texts: readonly string[]): readonly string[] {
  return texts.length === 0 ? none : texts;
}
