// Settles claims: every host, id and CONNECT name belongs to one cluster. Claims come oldest first; the first to claim a
// name keeps it; later claims of it are dropped, each with a finding.

import type { Backend, Cluster, Origin, Route } from '../cluster/cluster.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';
import { CATCH_ALL, isNameInside, isWildcard, wildcardOf } from '../cluster/hostname.ts';
import { isInDomain } from './domains.ts';

/** The holder of a name: a cluster, by a claim of its own or by one that joined it. */
interface Holder {
  readonly cluster: string;
  readonly origin: Origin;
}

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
  readonly #tls = new Map<string, Holder>();
  readonly #http = new Map<string, Holder>();
  /** The names that CONNECT knows, cluster names and ids among them. */
  readonly #connect = new Map<string, Holder>();
  readonly findings: Finding[] = [];
  /** How often, by claim. */
  readonly #refusals = new Map<Cluster, number>();

  constructor(options: PlanOptions) {
    this.#options = options;
    this.#reserved = new Set(options.reserved);
  }

  /** The cluster that holds the name already, if there is one. */
  holderOfName(name: string): Holder | undefined {
    return this.#connect.get(name);
  }

  claimName(claim: Cluster): boolean {
    return this.#claim(this.#connect, claim.name, claim, 'NameClaimed');
  }

  /** The same object where nothing is taken away from it. */
  settle(claim: Cluster): Cluster {
    const { id, ...rest } = claim;
    const keepsId = id === undefined || this.#claim(this.#connect, id.toLowerCase(), claim, 'IdClaimed');
    const routes = sameOr(
      claim.routes,
      claim.routes.map(route => this.#settleRoute(route, claim)),
    );
    if (keepsId && routes === claim.routes) return claim;
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
    const hosts = sameOr(
      route.hosts,
      route.hosts.filter(
        host => this.#mayHave(host, held, claim) && this.#claim(held, host, claim, 'HostClaimed'),
      ),
    );
    const connect = sameOr(
      route.connect,
      route.connect.filter(name => this.#claim(this.#connect, name, claim, 'ConnectNameClaimed')),
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

  #mayHave(host: string, held: ReadonlyMap<string, Holder>, claim: Cluster): boolean {
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
    if (older === undefined || older.cluster === name || (isOfFile && older.origin.source === 'file'))
      return true;
    const text = `'${host}' is covered by '${wildcard}' of cluster '${older.cluster}', which claimed it first`;
    this.refuse(
      claim,
      'HostUnderWildcard',
      text,
      `Choose a host outside '${wildcard}', or declare it in the file`,
    );
    return false;
  }

  #claim(held: Map<string, Holder>, name: string, claim: Cluster, code: FindingCode): boolean {
    const holder = held.get(name);
    if (holder === undefined) {
      held.set(name, { cluster: claim.name, origin: claim.origin });
      return true;
    }
    // Several routes of one cluster may have the same host; ALPN selects one. A cluster name belongs to one claim.
    if (holder.cluster === claim.name && code !== 'NameClaimed') return true;
    const text = `'${name}' belongs to cluster '${holder.cluster}', which claimed it first`;
    this.refuse(
      claim,
      code,
      text,
      `Give cluster '${claim.name}' a different name, or remove this one from '${holder.cluster}'`,
    );
    return false;
  }
}

/** Keeps the old array where every element is the same. */
function sameOr<T>(before: readonly T[], after: readonly T[]): readonly T[] {
  return before.length === after.length && after.every((value, i) => value === before[i]) ? before : after;
}
