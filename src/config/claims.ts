// Finds names that are claimed twice: a host selects one cluster (and one of its routes, unless ALPN distinguishes
// them), a CONNECT name one route. Works on the unvalidated data, so that a mistake elsewhere in a cluster does not
// hide its claims; the schema reports values that are not names.

import { CATCH_ALL, isHostname, isWildcard, normalizeHost } from '../cluster/hostname.ts';
import { isRecord } from './is-record.ts';
import type { Path } from './mistake.ts';
import { pathOfKind } from './path-of-kind.ts';
import { quote } from './reading.ts';

/** Where a claim was made; its path is built only when it is needed. */
interface Claim {
  /** Index in the file, or TUNNEL. */
  readonly cluster: number;
  readonly kind: string;
  readonly key: 'name' | 'id' | 'hosts' | 'connect';
  /** Index in the list under `key`; -1 if `key` is not a list. */
  readonly index: number;
  readonly alpn: readonly unknown[];
  /** The previous claim of the same cluster to the same host. */
  readonly earlier: Claim | undefined;
}

const TUNNEL = -1;
const NO_ALPN: readonly unknown[] = [];

export type Report = (path: Path, text: string) => void;

/** `placeOf` formats a position, such as causeway.yaml:7:15. */
export function checkClaims(data: unknown, placeOf: (path: Path) => string, report: Report): void {
  const clusters = isRecord(data) && Array.isArray(data.clusters) ? data.clusters : [];
  /** HTTP hosts are separate: a connection is either TLS or cleartext. */
  const bySni = new Map<string, Claim>();
  const byHttpHost = new Map<string, Claim>();
  const byConnect = new Map<string, Claim>();

  const labelOf = (index: number): string => {
    const name = isRecord(clusters[index]) ? clusters[index].name : undefined;
    return typeof name === 'string' && name !== '' ? `cluster ${quote(name)}` : `clusters[${index}]`;
  };
  const at = (claim: Claim) => placeOf(pathOf(claim));

  /** True if the claim is granted or is not worth reporting. */
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
    // An id may have capitals, but a CONNECT target is compared like a host: case-insensitively.
    const name = normalizeHost(value);
    const holder = byConnect.get(name);
    if (holder === undefined) byConnect.set(name, claim);
    else if (holder.cluster !== claim.cluster || holder.kind !== claim.kind) {
      const owner = holder.cluster === claim.cluster ? 'this cluster' : labelOf(holder.cluster);
      const text = `${quote(value)} is already claimed at ${at(holder)} ${USE_OF_KEY[holder.key]} ${owner}`;
      report(pathOf(claim), `${text}; ${adviceFor(holder, claim)}`);
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
        const isGranted = claimHost(claims, host, claim);
        if (isGranted && kind === 'api' && !String(host).startsWith('*')) claimConnect(host, claim);
      }
      for (const [index, name] of listOf(route, 'connect').entries()) {
        claimConnect(name, claimOf(cluster, kind, 'connect', index));
      }
    }
  }
}

/** Where the schema allows `*`. */
function mayCatchAll({ cluster, kind }: Claim): boolean {
  return cluster !== TUNNEL && kind !== 'api' && kind !== 'konnectivity';
}

/** The kind, the unvalidated route, and its hosts. */
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

/** The conflict between `claim` and `holder`, the latest claim to the host; undefined if there is none. */
function hostConflict(
  holder: Claim,
  claim: Claim,
  at: (claim: Claim) => string,
  labelOf: (cluster: number) => string,
): string | undefined {
  if (holder.cluster === TUNNEL) {
    return claim.cluster === TUNNEL ? undefined : `is already claimed at ${at(holder)} by the tunnel`;
  }
  if (holder.cluster !== claim.cluster)
    return `is already claimed at ${at(holder)} by ${labelOf(holder.cluster)}`;
  for (let other: Claim | undefined = holder; other !== undefined; other = other.earlier) {
    // Twice in one list: the schema reports it.
    if (other.kind === claim.kind) continue;
    if (other.alpn.length === 0 && claim.alpn.length === 0) {
      return `is already claimed at ${at(other)} by route ${quote(other.kind)} of this cluster; set alpn on one of them to tell them apart`;
    }
    const shared = claim.alpn.find(protocol => other.alpn.includes(protocol));
    if (typeof shared === 'string') {
      return `is already claimed at ${at(other)} by route ${quote(other.kind)} of this cluster, also for alpn ${quote(shared)}`;
    }
  }
  return undefined;
}

const USE_OF_KEY = {
  name: 'as the name of',
  id: 'as the id of',
  hosts: 'as an API host of',
  connect: 'for CONNECT to',
};

function adviceFor(holder: Claim, claim: Claim): string {
  if (holder.key === 'name' && claim.key === 'name') return 'give each cluster its own name';
  if (holder.key === 'id' && claim.key === 'id') return 'give each cluster its own id';
  return 'a CONNECT name can select only one route';
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
