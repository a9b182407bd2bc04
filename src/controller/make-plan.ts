// The plan of a configuration and what its sources observe.

import { networkInterfaces } from 'node:os';
import type { Backend } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Config } from '../config/config.ts';
import { requireIdentity } from '../config/require-identity.ts';
import { forbiddenBackend } from '../plan/forbidden-backend.ts';
import { type Plan, plan } from '../plan/plan.ts';
import type { Observed } from '../sources/source-set.ts';
import { parseIp } from '../wire/ip-address.ts';

/**
 * `listening`: the addresses that this process listens on, as `host:port`. `found`: what outputs and looks at
 * certificates have found since the last plan.
 */
export function makePlan(
  config: Config,
  observed: Observed,
  listening: readonly string[],
  found: readonly Finding[] = [],
): Plan {
  const { clusters, identity, tunnel, sources } = config;
  const claims = identity?.required === true ? observed.claims.map(requireIdentity) : observed.claims;
  const settled = plan([...clusters, ...claims], {
    reserved: tunnel?.hosts ?? [],
    domains: new Map(
      sources.flatMap(({ name, options }) =>
        'domains' in options && options.domains !== undefined ? [[name, options.domains] as const] : [],
      ),
    ),
    forbiddenBackend: backendRule(listening),
  });
  const known = [...settled.findings, ...observed.findings];
  return { ...settled, findings: [...known, ...notAmong(known, found)] };
}

/** A source and an output may both use the API server of a tenant, and find the same. */
function notAmong(known: readonly Finding[], found: readonly Finding[]): readonly Finding[] {
  if (found.length === 0) return found;
  const keyOf = ({ cluster, code, text }: Finding) => `${cluster} ${code} ${text}`;
  const keys = new Set(known.map(keyOf));
  return found.filter(finding => !keys.has(keyOf(finding)));
}

/** Judgements of backends, and the addresses of this process that each depends on. */
const judged = new WeakMap<Backend, { readonly own: string; readonly why: string | undefined }>();

/** A backend that has not changed is the same object, so each is judged once, until our own addresses change. */
function backendRule(listening: readonly string[]): (backend: Backend) => string | undefined {
  const local = Object.values(networkInterfaces()).flatMap(all => all?.map(({ address }) => address) ?? []);
  const own = `${listening.join(' ')} ${local.join(' ')}`;
  const isOwn = ownAddresses(listening, local);
  return backend => {
    const known = judged.get(backend);
    if (known?.own === own) return known.why;
    const why = forbiddenBackend(backend, isOwn);
    judged.set(backend, { own, why });
    return why;
  };
}

/** An address and port that this process listens on; for a listener on every address, any local address. */
function ownAddresses(
  listening: readonly string[],
  interfaces: readonly string[],
): (host: string, port: number) => boolean {
  const exact = new Set<string>();
  const ports = new Set<number>();
  for (const address of listening) {
    const colon = address.lastIndexOf(':');
    const host = address.slice(0, colon).replace(/^\[|\]$/g, '');
    const port = Number(address.slice(colon + 1));
    const bytes = ipKey(host);
    if (bytes === undefined || bytes === ANY_IPV4 || bytes === ANY_IPV6) ports.add(port);
    else exact.add(`${bytes} ${port}`);
  }
  const local = new Set(interfaces.map(address => ipKey(address.replace(/%.*$/, ''))));
  return (host, port) => {
    const bytes = ipKey(host);
    return exact.has(`${bytes} ${port}`) || (ports.has(port) && local.has(bytes));
  };
}

const ANY_IPV4 = ipKey('0.0.0.0');
const ANY_IPV6 = ipKey('::');

/** The same text for all notations of an address; undefined for a name. */
function ipKey(host: string): string | undefined {
  const bytes = parseIp(host);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('hex');
}
