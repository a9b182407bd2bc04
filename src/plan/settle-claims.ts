// Settles claims: every host, id and CONNECT name belongs to one cluster. Claims come oldest first; the first to claim a
// name keeps it; later claims of it are dropped, each with a finding.

import type { Backend, Cluster, Route } from '../cluster/cluster.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';
import { CATCH_ALL, isNameInside, isWildcard, wildcardOf } from '../cluster/hostname.ts';
import { isInDomain } from './domains.ts';

/** Of one object. */
const MAX_FINDINGS = 20;

export interface PlanOptions {
  /** Hosts that no cluster may have: those of the agents' tunnel. */
  readonly reserved?: readonly string[];
  /** By source: the domains its hosts must be in. A source that is not here may claim any. */
  readonly domains?: ReadonlyMap<string, readonly string[]>;
  /** Why an object may not have this backend, or undefined. */
  readonly forbiddenBackend?: (backend: Backend) => string | undefined;
}

export class ClaimTable {
  readonly #options: PlanOptions;
  readonly #reserved: ReadonlySet<string>;
  /** By name: the claim that holds it, of a cluster or of a Service that joined it. */
  readonly #tls = new Map<string, Cluster>();
  readonly #http = new Map<string, Cluster>();
  /** The names that CONNECT knows, cluster names and ids among them. */
  readonly #connect = new Map<string, Cluster>();
  readonly findings: Finding[] = [];
  /** How often, by claim. */
  readonly #refusals = new Map<Cluster, number>();

  constructor(options: PlanOptions) {
    this.#options = options;
    this.#reserved = new Set(options.reserved);
  }

  /** The cluster that holds the name already, if there is one. */
  holderOfName(name: string): Cluster | undefined {
    return this.#connect.get(name);
  }

  /** How many hosts are held. */
  get hosts(): number {
    let count = this.#tls.size;
    for (const host of this.#http.keys()) if (!this.#tls.has(host)) count++;
    return count;
  }

  claimName(claim: Cluster): boolean {
    return this.#claim(this.#connect, claim.name, claim, 'NameClaimed');
  }

  /** The same object where nothing is taken away from it. */
  settle(claim: Cluster): Cluster {
    const keepsId =
      claim.id === undefined || this.#claim(this.#connect, claim.id.toLowerCase(), claim, 'IdClaimed');
    const routes = claim.routes.map(route => this.#settleRoute(route, claim));
    if (keepsId && routes.every((route, i) => route === claim.routes[i])) return claim;
    const { id, ...rest } = claim;
    return { ...rest, ...(keepsId && id !== undefined && { id }), routes };
  }

  refuse(claim: Cluster, code: FindingCode, text: string, fix: string): void {
    const { name: cluster, origin } = claim;
    const count = (this.#refusals.get(claim) ?? 0) + 1;
    this.#refusals.set(claim, count);
    // One object may claim a thousand hosts.
    if (origin.object !== undefined && count > MAX_FINDINGS) return;
    this.findings.push({ cluster, ...(origin.object && { origin }), severity: 'error', code, text, fix });
  }

  #settleRoute(route: Route, claim: Cluster): Route {
    const held = route.kind === 'apps-http' ? this.#http : this.#tls;
    const hosts = filterSame(
      route.hosts,
      host => this.#mayHave(host, held, claim) && this.#claim(held, host, claim, 'HostClaimed'),
    );
    const connect = filterSame(route.connect, name =>
      this.#claim(this.#connect, name, claim, 'ConnectNameClaimed'),
    );
    const pool = this.#settlePool(route, claim);
    const isWhole = hosts === route.hosts && connect === route.connect && pool === route.pool;
    return isWhole ? route : { ...route, hosts, connect, pool };
  }

  /** Objects must not lead clients to this machine, to the gateway itself, or to a name that others control. */
  #settlePool({ kind, pool }: Route, claim: Cluster): Route['pool'] {
    const { forbiddenBackend } = this.#options;
    if (claim.origin.object === undefined || forbiddenBackend === undefined) return pool;
    const backends = pool.backends.filter(backend => {
      const why = forbiddenBackend(backend);
      if (why === undefined) return true;
      const text = `route '${kind}' may not have the backend '${backend.text}': ${why}`;
      this.refuse(claim, 'BackendForbidden', text, 'Use endpoints that are Pods or nodes');
      return false;
    });
    return backends.length === pool.backends.length ? pool : { ...pool, backends };
  }

  #mayHave(host: string, held: ReadonlyMap<string, Cluster>, claim: Cluster): boolean {
    const { name, origin } = claim;
    const isOfFile = origin.source === 'file';
    if (host === CATCH_ALL && !isOfFile) {
      const text = `'${CATCH_ALL}' matches every host that no other cluster has, which is allowed only in the file`;
      const fix = `List the hosts of cluster '${name}', or give '${CATCH_ALL}' to a cluster in the file`;
      this.refuse(claim, 'HostInvalid', text, fix);
      return false;
    }
    if (origin.object !== undefined && isNameInside(host)) {
      const text = `every cluster has the name '${host}' inside, so it cannot say which of them is meant`;
      this.refuse(claim, 'HostInvalid', text, `Give cluster '${name}' a host that no other cluster has`);
      return false;
    }
    if (this.#reserved.has(host)) {
      const text = `'${host}' is reserved for the agents' tunnel`;
      this.refuse(claim, 'HostReserved', text, `Give cluster '${name}' another host`);
      return false;
    }
    const domains = this.#options.domains?.get(origin.source);
    if (domains !== undefined && !domains.some(domain => isInDomain(host, domain))) {
      const text = `'${host}' is outside the domains of source '${origin.source}': ${domains.join(', ')}`;
      this.refuse(
        claim,
        'HostOutsideDomains',
        text,
        `Choose a host in one of them, or add its domain to the source's domains`,
      );
      return false;
    }
    const wildcard = isWildcard(host) ? undefined : wildcardOf(host);
    const older = wildcard === undefined ? undefined : held.get(wildcard);
    // The file has one author: an exact host beside another cluster's wildcard is intended there.
    if (older === undefined || older.name === name || (isOfFile && older.origin.source === 'file'))
      return true;
    const text = `'${host}' is covered by '${wildcard}' of cluster '${older.name}', which claimed it first`;
    this.refuse(
      claim,
      'HostUnderWildcard',
      text,
      `Choose a host outside '${wildcard}', or declare it in the file`,
    );
    return false;
  }

  #claim(held: Map<string, Cluster>, name: string, claim: Cluster, code: FindingCode): boolean {
    const holder = held.get(name);
    if (holder === undefined) {
      held.set(name, claim);
      return true;
    }
    // Several routes of one cluster may have the same host; ALPN selects one. A cluster name belongs to one claim.
    if (holder.name === claim.name && code !== 'NameClaimed') return true;
    const text = `'${name}' belongs to cluster '${holder.name}', which claimed it first`;
    this.refuse(
      claim,
      code,
      text,
      `Give cluster '${claim.name}' a different name, or remove this one from '${holder.name}'`,
    );
    return false;
  }
}

/** The same list if every value passes, as nearly always. */
function filterSame<T>(list: readonly T[], passes: (value: T) => boolean): readonly T[] {
  let kept: T[] | undefined;
  for (let index = 0; index < list.length; index++) {
    if (passes(list[index])) kept?.push(list[index]);
    else kept ??= list.slice(0, index);
  }
  return kept ?? list;
}
