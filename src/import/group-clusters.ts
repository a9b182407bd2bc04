// Groups of entries → clusters with routes. Every host, id and kind ends up in one place; entries for which there is none
// are reported.

import { knownKinds } from '../cluster/cluster.ts';
import { CLUSTER_ID } from '../cluster/cluster-id.ts';
import { domainOf, kindOf, stemOf, toLabel } from './cluster-keys.ts';
import type { Entry, ImportedListener, ImportedPool, ImportFinding, Place, Protocol } from './imported.ts';
import { placeText } from './imported.ts';
import { type Group, toGroups } from './to-groups.ts';

export interface GroupedRoute {
  kind: string;
  readonly hosts: string[];
  readonly pool: ImportedPool;
  readonly protocol: Protocol;
  readonly allow: readonly string[] | undefined;
  /** Indexes of the listeners on which its hosts are reachable, and those on which an id leads to it. */
  readonly listeners: Set<number>;
  readonly idListeners: Set<number>;
  readonly place: Place;
}

export interface GroupedCluster {
  readonly name: string;
  readonly id?: string;
  readonly routes: GroupedRoute[];
}

type Add = (finding: ImportFinding) => void;

export function groupClusters(
  given: readonly Entry[],
  listeners: readonly ImportedListener[],
  add: Add,
): GroupedCluster[] {
  const entries = withoutConflicts(withoutRedirectOfAll(given), add);
  const groups = toGroups(entries, listeners, add);
  const names = new Set<string>();
  const clusters = groups.flatMap(group => clustersOf(group, listeners, names, add));
  addRedirects(given, clusters, add);
  return clusters;
}

/** A host selects one route: the first entry keeps it. */
function withoutConflicts(entries: readonly Entry[], add: Add): Entry[] {
  const holders = new Map<string, Entry>();
  return entries.flatMap(entry => {
    const key =
      entry.host === undefined ? `id ${entry.id?.toLowerCase()}` : `${entry.protocol} ${entry.host}`;
    const holder = holders.get(key);
    if (holder === undefined) {
      holders.set(key, entry);
      return [entry];
    }
    if (samePool(holder.pool, entry.pool) && (holder.allow ?? []).join() === (entry.allow ?? []).join()) {
      return [{ ...entry, pool: holder.pool }];
    }
    const who = entry.host === '*' ? 'every other host' : (entry.host ?? `id ${entry.id}`);
    const where = placeText(holder.place);
    const kept = entry.host === '*' ? '; its backends are kept in a route without hosts: add the hosts' : '';
    add({
      place: entry.place,
      kind: 'not carried over',
      text: `${who} leads to '${entry.pool.name}' here and to '${holder.pool.name}' at ${where}, whichever port it comes to: a host has one route${kept}`,
    });
    // Unknown hosts of a second frontend: the pool is still worth keeping.
    const { host, ...hostless } = entry;
    return host === '*' && entry.protocol === 'tls' && entry.pool.redirect !== true ? [hostless] : [];
  });
}

function samePool(a: ImportedPool, b: ImportedPool): boolean {
  return (
    a === b ||
    (a.redirect === b.redirect &&
      a.backends.join() === b.backends.join() &&
      a.proxyProtocol === b.proxyProtocol)
  );
}

/** A frontend that redirects whatever comes says nothing about clusters. */
function withoutRedirectOfAll(entries: readonly Entry[]): Entry[] {
  return entries.filter(({ host, pool }) => !(host === '*' && pool.redirect === true));
}

/** It becomes `http: redirect` of every cluster with applications. */
function addRedirects(entries: readonly Entry[], clusters: readonly GroupedCluster[], add: Add): void {
  const holders = new Map<string, string>();
  for (const { name, routes } of clusters)
    for (const { kind, hosts } of routes)
      if (kind === 'apps-http') for (const host of hosts) holders.set(host, name);
  for (const entry of entries) {
    if (entry.host !== '*' || entry.pool.redirect !== true) continue;
    for (const { name, routes } of clusters) {
      const https = routes.find(({ kind }) => kind === 'apps-https');
      const http = routes.find(({ kind }) => kind === 'apps-http');
      if (http !== undefined) http.listeners.add(entry.listener);
      if (https === undefined || http !== undefined) continue;
      const { pool, place, listener } = entry;
      const held = https.hosts.find(host => holders.has(host));
      if (held !== undefined) {
        const text = `the redirect of '${name}': ${held} is served over HTTP by '${holders.get(held)}', and a host has one route`;
        add({ place, kind: 'not carried over', text });
        continue;
      }
      const listeners = new Set([listener]);
      routes.push({
        kind: 'apps-http',
        hosts: [...https.hosts],
        pool,
        protocol: 'http',
        allow: undefined,
        listeners,
        idListeners: new Set(),
        place,
      });
    }
  }
}

function clustersOf(
  group: Group,
  listeners: readonly ImportedListener[],
  names: Set<string>,
  add: Add,
): GroupedCluster[] {
  const name = uniqueName(nameOf(group, listeners), names);
  const routes: GroupedRoute[] = [];
  const extra: GroupedCluster[] = [];
  let id: string | undefined;
  const withIds = group.entries.filter(entry => entry.id !== undefined);
  for (const entry of group.entries)
    if (entry.id === undefined) addRoute(routes, entry, listeners, group, names, extra);
  for (const entry of withIds) {
    const { pool, allow, listener, place } = entry;
    if (entry.id === undefined || !CLUSTER_ID.test(entry.id)) {
      add({
        place,
        kind: 'not carried over',
        text: `the id '${entry.id}': an id has letters, digits, ".", "_" and "-"`,
      });
      continue;
    }
    const own: GroupedRoute = {
      kind: 'api',
      hosts: [],
      pool,
      protocol: 'tls',
      allow,
      listeners: new Set(),
      idListeners: new Set([listener]),
      place,
    };
    const api = routes.find(({ kind }) => kind === 'api');
    const fits =
      api === undefined || (samePool(api.pool, pool) && (api.allow ?? []).join() === (allow ?? []).join());
    if ((id === undefined || id === entry.id) && fits) {
      id = entry.id;
      if (api === undefined) routes.unshift(own);
      else api.idListeners.add(listener);
      continue;
    }
    extra.push({ name: uniqueName(`${name}-by-id`, names), id: entry.id, routes: [own] });
  }
  return [{ name, ...(id !== undefined && { id }), routes: settleApps(routes) }, ...extra];
}

function addRoute(
  routes: GroupedRoute[],
  entry: Entry,
  listeners: readonly ImportedListener[],
  group: Group,
  names: Set<string>,
  extra: GroupedCluster[],
): void {
  const { host, pool, allow, protocol, listener, place } = entry;
  const isSame = (route: GroupedRoute) =>
    route.protocol === protocol &&
    samePool(route.pool, pool) &&
    (route.allow ?? []).join() === (allow ?? []).join() &&
    !(host === '*' && (route.kind === 'api' || route.kind === 'konnectivity'));
  const kind = kindOf(entry, listeners[listener]);
  const known = [...routes, ...extra.flatMap(cluster => cluster.routes)].find(isSame);
  if (known !== undefined) {
    if (host !== undefined && !known.hosts.includes(host)) known.hosts.push(host);
    known.listeners.add(listener);
    return;
  }
  const route: GroupedRoute = {
    kind,
    hosts: host === undefined ? [] : [host],
    pool,
    protocol,
    allow,
    listeners: new Set([listener]),
    idListeners: new Set(),
    place,
  };
  if (!routes.some(other => other.kind === kind)) routes.push(route);
  // A cluster has one route for HTTP; for TLS it may have more under names of their own.
  else if (protocol === 'http')
    extra.push({
      name: uniqueName(toLabel(`${nameOf(group, listeners)}-http`, 'http'), names),
      routes: [route],
    });
  else routes.push({ ...route, kind: ownKind(toLabel(pool.name, 'route'), routes) });
}

/** http and https of `apps` share their hosts; if they differ, https gets a name of its own. */
function settleApps(routes: GroupedRoute[]): GroupedRoute[] {
  const https = routes.find(({ kind }) => kind === 'apps-https');
  const http = routes.find(({ kind }) => kind === 'apps-http');
  if (https === undefined || http === undefined) return routes;
  const same = https.hosts.toSorted().join() === http.hosts.toSorted().join();
  if (!same) https.kind = ownKind('https', routes);
  return routes;
}

export function ownKind(wanted: string, routes: readonly GroupedRoute[]): string {
  const taken = new Set<string>([...knownKinds, 'apps', ...routes.map(({ kind }) => kind)]);
  for (let number = 1; ; number++) {
    const kind = number === 1 ? wanted : `${wanted}-${number}`;
    if (!taken.has(kind)) return kind;
  }
}

function nameOf({ entries, kinds }: Group, listeners: readonly ImportedListener[]): string {
  const isMain = (entry: Entry) => !kinds.has('api') || kindOf(entry, listeners[entry.listener]) === 'api';
  const ordered = [...entries.filter(isMain), ...entries];
  const stems = new Set(ordered.map(({ pool }) => stemOf(pool.name)).filter(word => word !== undefined));
  const [stem] = stems;
  for (const { host } of ordered) {
    const domain = host === undefined ? undefined : domainOf(host);
    // example.com is rather a company than a cluster.
    if (domain !== undefined && (domain.split('.').length > 2 || stems.size !== 1))
      return toLabel(domain.split('.')[0], 'cluster');
  }
  const label = ordered.map(({ host }) => host?.replace(/^\*\.?/, '').split('.')[0]).find(word => word);
  return toLabel(stem ?? label ?? 'cluster', 'cluster');
}

function uniqueName(wanted: string, names: Set<string>): string {
  for (let number = 1; ; number++) {
    const name = number === 1 ? wanted : `${wanted}-${number}`;
    if (names.has(name)) continue;
    names.add(name);
    return name;
  }
}
