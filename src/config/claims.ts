// Who claims which name. Two things must not claim the same: a host selects one cluster (and within it one route,
// but for ALPN), a CONNECT name one route. Works on the file's data as it stands, so that a mistake elsewhere in
// a cluster does not hide its claims; what is not a name at all is the schema's business.

import { CATCH_ALL, isHostname, isWildcard, normalizeHost } from '../cluster/hostname.ts';
import { pathOfKind } from './cluster-schema.ts';
import { isRecord } from './fields.ts';
import type { Path } from './mistake.ts';
import { quote } from './reading.ts';

/** Where a claim was made; its path is put together only when it is needed. */
interface Claim {
  /** Index in the file, or TUNNEL. */
  readonly cluster: number;
  readonly kind: string;
  readonly key: 'name' | 'id' | 'hosts' | 'connect';
  /** In the list under `key`; -1 when it is no list. */
  readonly index: number;
  readonly alpn: readonly unknown[];
  /** An earlier claim of the same cluster to the same host. */
  readonly earlier: Claim | undefined;
}

const TUNNEL = -1;
const NO_ALPN: readonly unknown[] = [];

export type Report = (path: Path, text: string) => void;

/** `placeOf` names a place of the file, as in causeway.yaml:7:15. */
export function checkClaims(data: unknown, placeOf: (path: Path) => string, report: Report): void {
  const clusters = isRecord(data) && Array.isArray(data.clusters) ? data.clusters : [];
  /** SNI; HTTP has its own, since cleartext and TLS never meet on a connection. */
  const bySni = new Map<string, Claim>();
  const byHttpHost = new Map<string, Claim>();
  const byConnect = new Map<string, Claim>();

  const labelOf = (index: number): string => {
    const name = isRecord(clusters[index]) ? clusters[index].name : undefined;
    return typeof name === 'string' && name !== '' ? `cluster ${quote(name)}` : `clusters[${index}]`;
  };
  const at = (claim: Claim) => placeOf(pathOf(claim));

  /** True when the claim stands or is not worth a word. */
  const claimHost = (claims: Map<string, Claim>, value: unknown, claim: Claim): boolean => {
    if (typeof value !== 'string') return true;
    const host = normalizeHost(value);
    if (host === CATCH_ALL && !mayCatchAll(claim)) return true;
    const holder = claims.get(host);
    if (holder === undefined) {
      claims.set(host, claim);
      return true;
    }
    if (!isHostname(host) && !isWildcard(host) && host !== CATCH_ALL) return true;
    const text = hostConflict(holder, claim, at, labelOf);
    if (holder.cluster === claim.cluster) claims.set(host, { ...claim, earlier: holder });
    if (text !== undefined) report(pathOf(claim), `${quote(value)} ${text}`);
    return text === undefined;
  };

  const claimConnect = (value: unknown, claim: Claim): void => {
    if (typeof value !== 'string' || value === '') return;
    // An id may have capitals, but a CONNECT target is compared as a host: without case.
    const name = normalizeHost(value);
    const holder = byConnect.get(name);
    if (holder === undefined) byConnect.set(name, claim);
    else if (holder.cluster !== claim.cluster || holder.kind !== claim.kind) {
      const whose = holder.cluster === claim.cluster ? 'this cluster' : labelOf(holder.cluster);
      const text = `${quote(value)} is claimed already at ${at(holder)} ${WORD_OF_KEY[holder.key]} ${whose}`;
      report(pathOf(claim), `${text}; ${reasonFor(holder, claim)}`);
    }
  };

  for (const [index, host] of listOf(isRecord(data) ? data.tunnel : undefined, 'hosts').entries()) {
    claimHost(bySni, host, claimOf(TUNNEL, 'tunnel', 'hosts', index));
  }
  for (const [cluster, given] of clusters.entries()) {
    if (!isRecord(given)) continue;
    claimConnect(given.name, claimOf(cluster, 'api', 'name'));
    claimConnect(given.id, claimOf(cluster, 'api', 'id'));
    for (const [kind, route, hosts] of routesOf(given)) {
      const alpn = listOf(route, 'alpn');
      const claims = kind === 'apps-http' ? byHttpHost : bySni;
      for (const [index, host] of hosts.entries()) {
        const claim = claimOf(cluster, kind, 'hosts', index, alpn);
        const stands = claimHost(claims, host, claim);
        if (stands && kind === 'api' && !String(host).startsWith('*')) claimConnect(host, claim);
      }
      for (const [index, name] of listOf(route, 'connect').entries()) {
        claimConnect(name, claimOf(cluster, kind, 'connect', index));
      }
    }
  }
}

/** Where the schema lets `*` stand. */
function mayCatchAll({ cluster, kind }: Claim): boolean {
  return cluster !== TUNNEL && kind !== 'api' && kind !== 'konnectivity';
}

/** Kind, what the file says of the route, and its hosts. */
function* routesOf(cluster: Record<string, unknown>): Generator<[string, unknown, readonly unknown[]]> {
  for (const kind of ['api', 'konnectivity']) yield [kind, cluster[kind], listOf(cluster[kind], 'hosts')];
  if (isRecord(cluster.apps)) {
    const hosts = listOf(cluster.apps, 'hosts');
    const { https, http } = cluster.apps;
    if (https !== undefined) yield ['apps-https', https, hosts];
    if (http !== undefined) yield ['apps-http', http, hosts];
  }
  if (!isRecord(cluster.routes)) return;
  for (const [kind, route] of Object.entries(cluster.routes)) yield [kind, route, listOf(route, 'hosts')];
}

/** What is wrong when `claim` comes after `holder`, the latest that has the host; undefined when nothing is. */
function hostConflict(
  holder: Claim,
  claim: Claim,
  at: (claim: Claim) => string,
  labelOf: (cluster: number) => string,
): string | undefined {
  if (holder.cluster === TUNNEL) {
    return claim.cluster === TUNNEL ? undefined : `is claimed already at ${at(holder)} by the tunnel`;
  }
  if (holder.cluster !== claim.cluster)
    return `is claimed already at ${at(holder)} by ${labelOf(holder.cluster)}`;
  for (let other: Claim | undefined = holder; other !== undefined; other = other.earlier) {
    // Twice in one list: the schema says so.
    if (other.kind === claim.kind) continue;
    if (other.alpn.length === 0 && claim.alpn.length === 0) {
      return `is claimed already at ${at(other)} by route ${quote(other.kind)} of this cluster; alpn on one of the two could tell them apart`;
    }
    const shared = claim.alpn.find(protocol => other.alpn.includes(protocol));
    if (typeof shared === 'string') {
      return `is claimed already at ${at(other)} by route ${quote(other.kind)} of this cluster, for alpn ${quote(shared)} too`;
    }
  }
  return undefined;
}

const WORD_OF_KEY = {
  name: 'as the name of',
  id: 'as the id of',
  hosts: 'as an API host of',
  connect: 'for CONNECT to',
};

function reasonFor(holder: Claim, claim: Claim): string {
  if (holder.key === 'name' && claim.key === 'name') return 'give each cluster a name of its own';
  if (holder.key === 'id' && claim.key === 'id') return 'give each cluster an id of its own';
  return 'by CONNECT it can select one route only';
}

function pathOf(claim: Claim): Path {
  const { cluster, kind, key, index } = claim;
  if (cluster === TUNNEL) return ['tunnel', 'hosts', index];
  if (index < 0) return ['clusters', cluster, key];
  const route = key === 'hosts' && kind.startsWith('apps-') ? ['apps'] : pathOfKind(kind);
  return ['clusters', cluster, ...route, key, index];
}

function claimOf(
  cluster: number,
  kind: string,
  key: Claim['key'],
  index = -1,
  alpn: readonly unknown[] = NO_ALPN,
): Claim {
  return { cluster, kind, key, index, alpn, earlier: undefined };
}

function listOf(value: unknown, key: string): readonly unknown[] {
  const list = isRecord(value) ? value[key] : undefined;
  return Array.isArray(list) ? list : [];
}
