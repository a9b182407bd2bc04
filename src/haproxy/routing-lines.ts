// Which backend a TLS connection goes to: by id, then by exact host, wildcard, and `*`. One rule for the hosts of each
// route, grouped by cluster, as people write them. The first rule that matches wins, so a host that is claimed but not
// reachable on this listener needs a rule too, where a later one would take it.

import type { Cluster, Route } from '../cluster/cluster.ts';
import { CATCH_ALL, wildcardOf } from '../cluster/hostname.ts';
import type { Listener } from '../config/config.ts';
import { backendName, isHttpRoute } from './backend-section.ts';
import { aclLines, word } from './section.ts';

/** The backend without servers: for what nobody claims. */
export const REFUSED = 'refused';

/** More hosts than a person reads in one line. */
const HOSTS_PER_LINE = 4;

/** A host with the routes of the one cluster that claims it; those with ALPN come first. */
interface Claim {
  readonly host: string;
  readonly routes: readonly Route[];
}

/** `requests`: the backend that leads to the frontend for HTTP; absent if no HTTP route is reachable. */
export function routingLines(
  clusters: readonly Cluster[],
  listener: Listener,
  requests: string | undefined,
): readonly string[] {
  const claims = new Map(clusters.map(cluster => [cluster, claimsOf(cluster)]));
  const open = new Set(
    [...claims.values()]
      .flat()
      .flatMap(({ host, routes }) => (routes.some(route => isReachable(listener, route)) ? [host] : [])),
  );
  const byHost = (isWanted: (host: string) => boolean) =>
    clusters.flatMap(cluster => {
      const own = (claims.get(cluster) ?? []).filter(({ host }) => isWanted(host));
      const lines = own.length === 0 ? [] : hostLines(cluster, own, listener, open);
      return lines.length === 0 ? [] : [`# ${cluster.name}`, ...lines];
    });
  const exact = byHost(host => !host.startsWith('*'));
  const wildcards = byHost(host => host.startsWith('*.'));
  const rest = byHost(host => host === CATCH_ALL);
  return [
    ...alpnLines(clusters, listener),
    ...knownIdLines(clusters, listener),
    ...(requests === undefined ? [] : [`use_backend ${requests} if is_http`, '']),
    ...idLines(clusters, listener, claims),
    ...exact,
    ...(wildcards.length === 0 ? [] : ['', '# Wildcards stand for one label, and come after exact hosts.']),
    ...wildcards,
    ...(rest.length === 0 ? [] : ['', '# What nobody else has, TLS without a server name too.']),
    ...rest,
    '',
    `default_backend ${REFUSED}`,
  ];
}

export function isReachable({ only }: Pick<Listener, 'only'>, { kind }: Pick<Route, 'kind'>): boolean {
  return only === undefined || only.includes(kind);
}

function claimsOf(cluster: Cluster): readonly Claim[] {
  const tls = cluster.routes.filter(route => !isHttpRoute(route));
  const hosts = new Set(tls.flatMap(route => route.hosts));
  return [...hosts].map(host => ({
    host,
    routes: tls
      .filter(route => route.hosts.includes(host))
      .toSorted((a, b) => Number(b.alpn.length > 0) - Number(a.alpn.length > 0)),
  }));
}

function alpnLines(clusters: readonly Cluster[], listener: Listener): readonly string[] {
  const lines = clusters.flatMap(cluster =>
    cluster.routes
      .filter(route => route.alpn.length > 0 && isReachable(listener, route))
      .map(route => {
        const names = route.alpn.map(name => name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|');
        return `acl ${alpnAcl(cluster, route)} req.ssl_alpn -m reg ${word(`(^|,)(${names})(,|$)`)}`;
      }),
  );
  return lines.length === 0 ? [] : [...lines, ''];
}

function alpnAcl(cluster: Cluster, route: Route): string {
  return `alpn_${cluster.name}_${route.kind}`;
}

/** Rules of `tcp-request` stand before `use_backend`, as HAProxy evaluates them. */
function knownIdLines(clusters: readonly Cluster[], { agents }: Listener): readonly string[] {
  if (agents.length === 0) return [];
  const ids = clusters.flatMap(({ id }) => (id === undefined ? [] : [id]));
  return [
    ...aclLines('known_id', 'var(sess.id) -m str', ids),
    `tcp-request content reject if { var(sess.id) -m found }${ids.length === 0 ? '' : ' !known_id'}`,
    '',
  ];
}

/** An id fixes the cluster: the host chooses among its routes only, and its `api` gets the rest. */
function idLines(
  clusters: readonly Cluster[],
  listener: Listener,
  claims: ReadonlyMap<Cluster, readonly Claim[]>,
): readonly string[] {
  if (listener.agents.length === 0) return [];
  const named = clusters.filter(({ id }) => id !== undefined);
  if (named.length === 0) return [];
  return [
    '# An id fixes the cluster: a host chooses among its routes only, and its api gets the rest.',
    ...named.flatMap(cluster => {
      const acl = `id_${cluster.name}`;
      const api = cluster.routes.find(({ kind }) => kind === 'api');
      const fallback = api !== undefined && isReachable(listener, api) ? backendName(cluster, api) : REFUSED;
      const own = claims.get(cluster) ?? [];
      const wildcards = new Set(own.map(({ host }) => host));
      const ordered = [
        ...own.filter(({ host }) => !host.startsWith('*')),
        ...own.filter(({ host }) => host.startsWith('*.')),
      ];
      const rules = ordered.flatMap(({ host, routes }) => {
        const isShadowing = wildcards.has(wildcardOf(host) ?? '') && !host.startsWith('*');
        const targets = targetsOf(cluster, routes, listener, isShadowing ? fallback : undefined);
        return targets
          .filter(({ backend }) => isShadowing || backend !== fallback)
          .map(({ backend, alpn }) => `use_backend ${backend} if ${acl} ${condition(host)}${alpn}`);
      });
      return [
        ...aclLines(acl, 'var(sess.id) -m str', [cluster.id ?? '']),
        ...rules,
        `use_backend ${fallback} if ${acl}`,
      ];
    }),
    '',
  ];
}

/** Hosts that lead to the same backend, whatever the ALPN, share a rule. */
function hostLines(
  cluster: Cluster,
  claims: readonly Claim[],
  listener: Listener,
  open: ReadonlySet<string>,
): readonly string[] {
  const lines: string[] = [];
  const shared = new Map<string, string[]>();
  for (const { host, routes } of claims) {
    const isShadowing =
      (!host.startsWith('*') && open.has(wildcardOf(host) ?? '')) ||
      (host !== CATCH_ALL && open.has(CATCH_ALL));
    const targets = targetsOf(cluster, routes, listener, isShadowing ? REFUSED : undefined);
    const [{ backend, alpn } = { backend: '', alpn: '' }] = targets;
    if (targets.length === 1 && alpn === '') shared.set(backend, [...(shared.get(backend) ?? []), host]);
    else lines.push(...targets.map(to => `use_backend ${to.backend} if ${condition(host)}${to.alpn}`));
  }
  for (const [backend, hosts] of shared) {
    for (let at = 0; at < hosts.length; at += HOSTS_PER_LINE)
      lines.push(`use_backend ${backend} if ${condition(...hosts.slice(at, at + HOSTS_PER_LINE))}`);
  }
  return lines;
}

/** All of one form: exact, with a wildcard, or `*`. */
function condition(...hosts: readonly string[]): string {
  const [first] = hosts;
  if (first === CATCH_ALL) return 'is_tls';
  return `{ var(txn.${first.startsWith('*.') ? 'wildcard' : 'host'}) -m str ${hosts.join(' ')} }`;
}

interface Target {
  readonly backend: string;
  /** The ACL, with a space in front; empty for any ALPN. */
  readonly alpn: string;
}

/** Where the routes of a host lead, the first that matches; `otherwise` if they may not match. */
function targetsOf(
  cluster: Cluster,
  routes: readonly Route[],
  listener: Listener,
  otherwise: string | undefined,
): readonly Target[] {
  const targets: Target[] = [];
  for (const route of routes) {
    if (!isReachable(listener, route)) continue;
    const alpn = route.alpn.length === 0 ? '' : ` ${alpnAcl(cluster, route)}`;
    targets.push({ backend: backendName(cluster, route), alpn });
    if (alpn === '') return targets;
  }
  return otherwise === undefined ? targets : [...targets, { backend: otherwise, alpn: '' }];
}
