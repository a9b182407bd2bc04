// The source of annotated Services. Each gives one cluster with one route; the plan joins those of the same name and
// namespace.

import { isDeepStrictEqual } from 'node:util';
import type { Cluster, Origin } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { SourceOptions } from '../config/config.ts';
import { toRouteOfKind } from '../config/to-route.ts';
import type { KeptService } from './kept-service.ts';
import {
  isExposed,
  type ReadAnnotations,
  readAnnotations,
  type ServiceClaim,
} from './service-annotations.ts';
import { openServiceBackends } from './service-backends.ts';
import { serviceFinding } from './service-finding.ts';
import type { IndexedService } from './service-index.ts';
import type { FoundService, ServiceLookup } from './service-lookup.ts';
import type { Observation, OpenSource } from './source.ts';

type ServicesOptions = SourceOptions['services'];
type Via = ServicesOptions['via'];

/** What one Service gives, and what it was made of. */
interface Made {
  readonly from: IndexedService;
  readonly service: KeptService;
  readonly annotations: ReadAnnotations;
  readonly found: FoundService | undefined;
  readonly cluster: Cluster | undefined;
  readonly findings: readonly Finding[];
}

const PORT_FIX = 'Set the annotation causeway.dev/port to the name or number of one of them';
const NO_LIMITS = {};

export const openServices: OpenSource<ServicesOptions> = (options, context, changed) => {
  const { kubeconfig, context: kubeContext, namespaces, selector: labelSelector, via } = options;
  const { name: source, clock } = context;
  let made: ReadonlyMap<string, Made> = new Map();
  let last: Observation | undefined;
  const backends = openServiceBackends(
    context.kubeApi({ kubeconfig, context: kubeContext }),
    { source, namespaces, labelSelector, via, clock },
    () => {
      last = undefined;
      changed();
    },
  );

  function observe(): Observation {
    const { state } = backends;
    // Until both have been listed, every Service would seem to have no endpoints.
    if (!state.synced) return { ...state, clusters: [] };
    made = remake(backends.services, made, backends, source, via);
    const clusters: Cluster[] = [];
    const findings = [...state.findings];
    for (const each of made.values()) {
      if (each.cluster !== undefined) clusters.push(each.cluster);
      findings.push(...each.findings);
    }
    return { ...state, clusters, findings };
  }

  return {
    name: source,
    observe: () => (last ??= observe()),
    [Symbol.asyncDispose]: () => backends[Symbol.asyncDispose](),
  };
};

/** Keeps what was made of a Service for as long as nothing about it has changed. */
function remake(
  services: ReadonlyMap<string, IndexedService>,
  before: ReadonlyMap<string, Made>,
  lookup: ServiceLookup,
  source: string,
  via: Via,
): ReadonlyMap<string, Made> {
  const all = new Map<string, Made>();
  for (const [key, from] of services) {
    const old = before.get(key);
    const { service } = from;
    if (old?.from === from) all.set(key, old);
    else if (service !== undefined && isExposed(service)) {
      all.set(key, makeAgain(from, service, old, lookup, source, via));
    }
  }
  return all;
}

function makeAgain(
  from: IndexedService,
  service: KeptService,
  before: Made | undefined,
  lookup: ServiceLookup,
  source: string,
  via: Via,
): Made {
  const isSameService = before?.service === service;
  const annotations = isSameService ? before.annotations : readAnnotations(service);
  const { claim } = annotations;
  const found = claim && lookup.find(service.namespace, service.name, claim.port, via);
  if (isSameService && before.found === found) return { ...before, from };
  const now = make(service, annotations, found, source);
  // Most changes of a Service concern something else, our own status annotation for one.
  const isSameCluster = before !== undefined && isDeepStrictEqual(now.cluster, before.cluster);
  return { ...now, from, cluster: isSameCluster ? before.cluster : now.cluster };
}

function make(
  service: KeptService,
  annotations: ReadAnnotations,
  found: FoundService | undefined,
  source: string,
): Omit<Made, 'from'> {
  const { namespace, name, uid, createdAt } = service;
  const { claim, problems } = annotations;
  const object = { apiVersion: 'v1', kind: 'Service', namespace, name, uid, createdAt };
  const origin: Origin = { source, object };
  const missing =
    claim && found && serviceFinding(found, { namespace, name, port: claim.port, portFix: PORT_FIX });
  const findings = [...problems, ...(missing ? [missing] : [])].map(problem => ({
    ...(claim && { cluster: claim.cluster }),
    origin,
    ...problem,
  }));
  const cluster = claim && found && toCluster(claim, found, origin);
  return { service, annotations, found, cluster, findings };
}

/**
 * A Service that has no backends still claims its hosts: an endpoint that restarts must not let another tenant have them.
 * `allow` belongs to the route, because the cluster may be one that the Service only joins.
 */
function toCluster(claim: ServiceClaim, found: FoundService, origin: Origin): Cluster {
  const { cluster: name, id, hosts, allow, isPaused } = claim;
  const isFound = found.kind === 'found';
  const route = toRouteOfKind(claim.route, { hosts, allow, backends: isFound ? found.backends : [] });
  return {
    name,
    ...(id !== undefined && { id }),
    origin,
    limits: NO_LIMITS,
    identityRequired: false,
    routes: [isFound ? { ...route, service: found.service } : route],
    controlPlane: { isPaused },
  };
}
