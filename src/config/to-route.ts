// A route from what the file or a source says about it, with the defaults of its kind.

import type { Backend, Balance, Health, HealthCheck, ProxyProtocol, Route } from '../cluster/cluster.ts';

/** Shared by all routes of a kind, so that 10,000 clusters share five objects. */
export const defaultsOf = {
  api: defaults('source', 'tls'),
  konnectivity: defaults('round-robin', 'tcp'),
  'apps-https': defaults('source', 'tls'),
  'apps-http': defaults('host', 'http'),
  own: defaults('source', 'tcp'),
} as const;

export type KindWithDefaults = keyof typeof defaultsOf;

interface RouteFields {
  readonly hosts?: readonly string[] | undefined;
  readonly backends: readonly Backend[];
  readonly balance?: Balance | undefined;
  readonly health?: Health | undefined;
  readonly proxyProtocol?: ProxyProtocol | undefined;
  readonly connect?: readonly string[] | undefined;
  readonly alpn?: readonly string[] | undefined;
  readonly allow?: readonly string[] | undefined;
  readonly redirect?: boolean;
}

export function toRoute(kind: KindWithDefaults, given: RouteFields): Route {
  const { balance, health } = defaultsOf[kind];
  return {
    kind,
    hosts: given.hosts ?? [],
    connect: given.connect ?? [],
    alpn: given.alpn ?? [],
    ...(given.allow !== undefined && { allow: given.allow }),
    proxyProtocol: given.proxyProtocol ?? 'none',
    redirect: given.redirect ?? false,
    pool: { backends: given.backends, balance: given.balance ?? balance, health: given.health ?? health },
  };
}

/** For routes that do not come from the file: of any kind, with the defaults that the file gives it. */
export function toRouteOfKind(kind: string, given: RouteFields): Route {
  const known = Object.hasOwn(defaultsOf, kind) ? (kind as KindWithDefaults) : 'own';
  return { ...toRoute(known, given), kind };
}

function defaults(
  balance: Balance,
  check: HealthCheck,
): { readonly balance: Balance; readonly health: Health } {
  return { balance, health: { check, everyMs: 5000, timeoutMs: 2000, rise: 2, fall: 3 } };
}
