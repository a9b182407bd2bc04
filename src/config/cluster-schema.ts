// The schema of `clusters` in causeway.yaml, and its conversion to Cluster.

import type { z } from 'zod';
import { type Cluster, type ClusterLimits, knownKinds, type Route } from '../cluster/cluster.ts';
import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import { choose, field, form, limit, list, map, oneOf, record } from './fields.ts';
import { isRecord } from './is-record.ts';
import { DNS_LABEL, DNS_LABEL_WORDS } from './names.ts';
import { pathOfKind } from './path-of-kind.ts';
import { bad, either, good, type Reading } from './reading.ts';
import { cidrs, hosts, hostsOrAll, poolBackends, poolShape } from './route-schema.ts';
import { type KindWithDefaults, toRoute } from './to-route.ts';

/** Not allowed as names of user-defined routes: they would be ambiguous. */
const RESERVED = new Set<string>([...knownKinds, 'apps']);

const limits = map({
  connections: limit.optional(),
  perSource: limit.optional(),
  newPerSecond: limit.optional(),
}).transform((given): ClusterLimits => {
  const { connections = 'off', perSource = 'off', newPerSecond = 'off' } = given;
  return {
    ...(connections !== 'off' && { connections }),
    ...(perSource !== 'off' && { perSource }),
    ...(newPerSecond !== 'off' && { newPerSecond }),
  };
});

const apps = map({
  hosts: hostsOrAll.optional(),
  https: appsPool('apps-https').optional(),
  http: appsPool('apps-http').optional(),
}).transform((given, context): readonly Route[] => {
  const { hosts = [], https, http } = given;
  if (https === undefined && http === undefined && context.issues.length === 0) {
    context.issues.push({
      code: 'custom',
      message: 'must have https, http or both: both are missing',
      input: given,
    });
  }
  return [https, http].filter(route => route !== undefined).map(route => ({ ...route, hosts }));
});

export const cluster: z.ZodType<Cluster> = map({
  name: form(DNS_LABEL, DNS_LABEL_WORDS),
  id: form(CLUSTER_ID, CLUSTER_ID_WORDS).optional(),
  allow: cidrs.optional(),
  limits: limits.optional(),
  identity: oneOf(['required']).optional(),
  api: route('api').optional(),
  konnectivity: route('konnectivity').optional(),
  apps: apps.optional(),
  routes: record(readOwnKind, route('own'), 'a map from names to routes').optional(),
}).transform((given): Cluster => {
  const { name, id, allow, api, konnectivity, apps = [], routes = {} } = given;
  const own = Object.entries(routes).map(([kind, route]) => ({ ...route, kind }));
  return {
    name,
    ...(id !== undefined && { id }),
    origin: { source: 'file' },
    ...(allow !== undefined && { allow }),
    limits: given.limits ?? {},
    identityRequired: given.identity === 'required',
    routes: [api, konnectivity, ...apps, ...own].filter(route => route !== undefined),
  };
});

export const clusters = list(cluster, '[{ name: …, api: … }], or []');

/** A route with its own hosts. */
function route(kind: KindWithDefaults): z.ZodType<Route> {
  const named = kind === 'own' ? hostsOrAll : hosts;
  return map({ hosts: named.optional(), ...poolShape(kind) }).transform(given => toRoute(kind, given));
}

/** A route that takes its hosts from `apps`: a map, only a list of backends, or for http a redirect. */
function appsPool(kind: 'apps-https' | 'apps-http'): z.ZodType<Route> {
  const { alpn, ...shape } = poolShape(kind);
  const long = map(kind === 'apps-https' ? { ...shape, alpn } : shape).transform(given =>
    toRoute(kind, given),
  );
  const short = poolBackends.transform(backends => toRoute(kind, { backends }));
  const redirect = field(() => good(toRoute(kind, { backends: [], redirect: true })));
  const what =
    kind === 'apps-http' ? 'a list of backends, a map or "redirect"' : 'a list of backends or a map';
  const neither = field<Route>(value => bad(what, value));
  return choose(value => {
    if (kind === 'apps-http' && value === 'redirect') return redirect;
    if (Array.isArray(value)) return short;
    return isRecord(value) ? long : neither;
  });
}

function readOwnKind(kind: string): Reading<string> {
  if (!RESERVED.has(kind)) return DNS_LABEL.test(kind) ? good(kind) : bad(DNS_LABEL_WORDS, kind);
  const key = kind === 'apps' ? kind : pathOfKind(kind).join('.');
  return bad(
    `a name other than ${either([...RESERVED])}; for that route, use the key ${key} of the cluster`,
    kind,
  );
}
