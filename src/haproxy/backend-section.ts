// A route as a HAProxy backend: who may use it, its limits, how it balances, how its servers are checked.

import { isIP } from 'node:net';
import type { Backend, Cluster, Health, Route } from '../cluster/cluster.ts';
import { limitLines } from './limit-sections.ts';
import { refuse } from './refuse.ts';
import { aclLines, type Section, time, word } from './section.ts';
import { RESOLVERS } from './settings-sections.ts';

/** Unique, since neither a cluster's name nor a kind of route has `_`. */
export function backendName(cluster: Pick<Cluster, 'name'>, { kind }: Pick<Route, 'kind'>): string {
  return `be_${cluster.name}_${kind}`;
}

/** `apps-http` is the only kind of which we read requests. */
export function isHttpRoute({ kind }: Pick<Route, 'kind'>): boolean {
  return kind === 'apps-http';
}

/** `stalledMs`: of `timeouts`. */
export function backendSection(cluster: Cluster, route: Route, stalledMs: number | undefined): Section {
  const { pool } = route;
  return {
    head: `backend ${backendName(cluster, route)}`,
    lines: [
      ...(isHttpRoute(route) ? ['mode http'] : []),
      ...(isClosed(cluster, route)
        ? ['# Nobody is allowed.', refuse(isHttpRoute(route), 403, '')]
        : [...allowLines(cluster, route), ...limitLines(cluster, isHttpRoute(route))]),
      '',
      ...balanceLines(route),
      ...(route.redirect ? [] : checkLines(route)),
      ...(route.redirect ? redirectLines(cluster, route) : serverLines(pool.backends, route, stalledMs)),
    ],
  };
}

/** HAProxy warns about rules behind one that refuses everybody. */
function isClosed(cluster: Cluster, route: Route): boolean {
  return cluster.allow?.length === 0 || route.allow?.length === 0;
}

/** The cluster's list and the route's own: both must have the client. */
function allowLines(cluster: Cluster, route: Route): readonly string[] {
  const lists = [
    ['allowed', cluster.allow],
    ['allowed_here', route.allow],
  ] as const;
  return lists.flatMap(([name, list]) => {
    if (list === undefined) return [];
    return [...aclLines(name, 'src', list), refuse(isHttpRoute(route), 403, ` unless ${name}`)];
  });
}

function balanceLines({ pool, redirect }: Route): readonly string[] {
  if (redirect || pool.backends.length < 2) return [];
  switch (pool.balance) {
    case 'source':
      return ['balance source', 'hash-type consistent'];
    case 'host':
      return ['balance hash var(txn.host)', 'hash-type consistent'];
    case 'least-connections':
      return ['balance leastconn'];
    case 'random':
      return ['balance random'];
    default:
      return ['balance roundrobin'];
  }
}

/** What every server of the backend has in common. */
function checkLines(route: Route): readonly string[] {
  const { health } = route.pool;
  if (health.check === 'none') return [];
  const isAsked = health.check === 'http' || health.check === 'https';
  const host = serverNameOf(route) ?? route.pool.backends[0]?.text ?? 'localhost';
  return [
    ...(isAsked
      ? [
          'option httpchk',
          `http-check send meth GET uri ${word(health.path ?? '/')} ver HTTP/1.1 hdr Host ${host}`,
          `http-check expect status ${health.check === 'http' ? '100-599' : '200-399,401,403'}`,
        ]
      : []),
    `timeout check ${time(health.timeoutMs)}`,
  ];
}

/** As the gateway's own checks: the server name of the check, else the route's first host without a wildcard. */
function serverNameOf({ hosts, pool }: Route): string | undefined {
  return pool.health.serverName ?? hosts.find(host => !host.startsWith('*'));
}

function defaultServerLine(route: Route, stalledMs: number | undefined): string {
  const parts = [
    ...checkWords(route, route.pool.health),
    ...(route.proxyProtocol === 'none'
      ? []
      : [route.proxyProtocol === 'v1' ? 'send-proxy' : 'send-proxy-v2']),
    ...(stalledMs === undefined ? [] : [`tcp-ut ${time(stalledMs)}`]),
  ];
  return `default-server ${parts.join(' ')}`;
}

function checkWords(route: Route, health: Health): readonly string[] {
  if (health.check === 'none') return [];
  const isTls = health.check === 'tls' || health.check === 'https';
  const serverName = serverNameOf(route);
  return [
    'check',
    ...(isTls ? ['check-ssl', 'verify none'] : []),
    ...(isTls && serverName !== undefined ? [`check-sni ${serverName}`] : []),
    ...(health.check === 'https' ? ['check-alpn http/1.1'] : []),
    `inter ${time(health.everyMs)}`,
    `rise ${health.rise}`,
    `fall ${health.fall}`,
  ];
}

/** Each backend twice where there are checks: HAProxy would serve nobody while all are down, we try all of them. */
function serverLines(
  backends: readonly Backend[],
  route: Route,
  stalledMs: number | undefined,
): readonly string[] {
  if (backends.length === 0) return ['# There are no servers yet.'];
  const common = defaultServerLine(route, stalledMs);
  const isChecked = route.pool.health.check !== 'none';
  return [
    ...(common === 'default-server ' ? [] : [common]),
    ...backends.map((backend, index) => serverLine(`s${index + 1}`, backend)),
    ...(isChecked
      ? [
          '# While every server is down, all of them are tried.',
          'option allbackups',
          ...backends.map((backend, index) =>
            serverLine(`s${index + 1}-anyway`, backend, ' no-check backup'),
          ),
        ]
      : []),
  ];
}

function serverLine(name: string, { host, port }: Backend, rest = ''): string {
  const family = isIP(host);
  const address = family === 6 ? `[${host}]:${port}` : `${host}:${port}`;
  const lookup = family === 0 ? ` resolvers ${RESOLVERS} init-addr last,libc,none` : '';
  return `server ${name} ${address}${lookup}${rest}`;
}

/** The port of the Host is kept unless it is 80. */
function redirectLines(cluster: Cluster, route: Route): readonly string[] {
  if (isClosed(cluster, route)) return [];
  return ["http-request redirect prefix 'https://%[req.hdr(host),regsub(:80$,)]' code 308"];
}
