// A route of a control plane whose backends are those of a Service port, and the finding where it has none.

import type { Route } from '../cluster/cluster.ts';
import { toRoute } from '../config/to-route.ts';
import type { Report } from './report.ts';
import { type SoughtService, serviceFinding } from './service-finding.ts';
import type { FoundService, PortChoice, ServiceLookup } from './service-lookup.ts';

export interface RouteTarget extends Pick<SoughtService, 'namespace' | 'missingFix' | 'portFix'> {
  /** The first of these that exists. */
  readonly names: readonly [string, ...string[]];
  /** The first of these that it has. */
  readonly ports: readonly [PortChoice, ...PortChoice[]];
  /** What outputs refer to while there is no such port. */
  readonly number: number;
}

export interface RouteContext {
  readonly lookup: ServiceLookup;
  readonly via: 'endpoints' | 'clusterIP';
  readonly report: Report;
}

/** Also without backends: its hosts stay claimed. */
export function serviceRoute(
  kind: 'api' | 'konnectivity',
  hosts: readonly string[],
  target: RouteTarget,
  { lookup, via, report }: RouteContext,
): Route {
  const { namespace, ports, number, missingFix, portFix } = target;
  const { name, found } = findTarget(target, lookup, via);
  // Both routes have the same Service: the one for api has said what is wrong with it as a whole.
  if (kind === 'api' || found.kind === 'found' || found.kind === 'no-port') {
    const sought = { namespace, name, port: ports[0], missingFix, portFix };
    const problem = serviceFinding(found, sought);
    if (problem !== undefined) report(problem.severity, problem.code, problem.text, problem.fix);
  }
  const backends = found.kind === 'found' ? found.backends : [];
  const service = found.kind === 'found' ? found.service : { namespace, name, port: number };
  return { ...toRoute(kind, { hosts, backends }), ...(found.kind !== 'unusable' && { service }) };
}

function findTarget(
  { namespace, names, ports }: RouteTarget,
  lookup: ServiceLookup,
  via: RouteContext['via'],
): { readonly name: string; readonly found: FoundService } {
  for (const name of names) {
    const found = findPort(namespace, name, ports, lookup, via);
    if (found.kind !== 'no-service') return { name, found };
  }
  return { name: names[0], found: { kind: 'no-service' } };
}

function findPort(
  namespace: string,
  name: string,
  [first, ...others]: RouteTarget['ports'],
  lookup: ServiceLookup,
  via: RouteContext['via'],
): FoundService {
  let found = lookup.find(namespace, name, first, via);
  for (const port of others) {
    if (found.kind !== 'no-port') return found;
    found = lookup.find(namespace, name, port, via);
  }
  return found;
}
