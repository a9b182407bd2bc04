// A listener as HAProxy frontends. One port serves TLS, PROXY headers and HTTP: the first bytes tell which. Requests need
// a frontend of their own, since each is routed by its Host; they reach it through an abstract socket, behind a PROXY
// header that carries the client.

import type { Config, Listener } from '../config/config.ts';
import { backendName, isHttpRoute } from './backend-section.ts';
import { type HaproxyVersion, readsAnyTlv, UNIQUE_ID_TLV } from './haproxy-version.ts';
import { SOURCES_TABLE } from './limit-sections.ts';
import { isReachable, REFUSED, routingLines } from './routing-lines.ts';
import { aclLines, type Section, time } from './section.ts';
import { isLogged } from './settings-sections.ts';
import { upgradeLines } from './upgrade-lines.ts';

/** The host as routes match it: lower case, without a trailing dot. */
const NORMALIZED = 'lower,rtrim(.)';
/** The wildcard that would match the host: `*` for its first label, if that is a legal one. */
const WILDCARD = `var(txn.host),'regsub("^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?[.]","*.")'`;

function listenerName({ host, port }: Listener): string {
  return host === '' ? `${port}` : `${host.replaceAll(':', '_')}_${port}`;
}

export function frontendSections(
  config: Config,
  listener: Listener,
  version: HaproxyVersion,
): readonly Section[] {
  const name = listenerName(listener);
  const hasHttp = config.clusters.some(({ routes }) =>
    routes.some(route => isHttpRoute(route) && isReachable(listener, route)),
  );
  return [
    {
      head: `frontend listen_${name}`,
      lines: [
        ...bindLines(listener, config.timeouts.stalledMs),
        ...clientLines(listener, version),
        ...perSourceLines(config),
        '',
        ...inspectLines(config, listener, hasHttp),
        '',
        ...routingLines(config.clusters, listener, hasHttp ? `http_${name}` : undefined),
      ],
    },
    ...(hasHttp ? httpSections(config, listener, name) : []),
  ];
}

/** One socket for each family, so that an IPv4 client has an IPv4 address. */
function bindLines({ host, port }: Listener, stalledMs: number | undefined): readonly string[] {
  const rest = stalledMs === undefined ? '' : ` tcp-ut ${time(stalledMs)}`;
  if (host === '') return [`bind 0.0.0.0:${port}${rest}`, `bind [::]:${port} v6only${rest}`];
  return [`bind ${host.includes(':') ? `[${host}]` : host}:${port}${rest}`];
}

/** Who is the client: a balancer's header replaces it, an agent's does not. */
function clientLines({ agents, balancers, idTlv }: Listener, version: HaproxyVersion): readonly string[] {
  return [
    ...(balancers.length === 0
      ? []
      : [
          '',
          '# Load balancers: their PROXY header names the client.',
          ...aclLines('from_balancer', 'src', balancers),
          'tcp-request connection expect-proxy layer4 if from_balancer',
        ]),
    ...(agents.length === 0
      ? []
      : [
          '',
          '# Agents: their PROXY header names a cluster; they stay the client.',
          ...aclLines('from_agent', 'src', agents),
          `tcp-request connection set-var(sess.agent) src if from_agent${balancers.length === 0 ? '' : ' !from_balancer'}`,
          'acl is_agent var(sess.agent) -m found',
          'tcp-request connection expect-proxy layer4 if is_agent',
          'tcp-request content set-src var(sess.agent) if is_agent',
          '# Read once: an ACL on the TLV itself can end HAProxy 3.0.',
          ...idFetches(idTlv, version).map(
            fetch => `tcp-request content set-var(sess.id,ifnotexists) ${fetch} if is_agent`,
          ),
        ]),
  ];
}

function idFetches(idTlv: readonly number[], version: HaproxyVersion): readonly string[] {
  if (readsAnyTlv(version)) return idTlv.map(type => `fc_pp_tlv(0x${type.toString(16).padStart(2, '0')})`);
  return idTlv.includes(UNIQUE_ID_TLV) ? ['fc_pp_unique_id'] : [];
}

function perSourceLines({ limits }: Config): readonly string[] {
  if (limits.perSource === undefined) return [];
  return [
    '',
    `tcp-request content track-sc0 src table ${SOURCES_TABLE}`,
    `tcp-request content reject if { sc0_conn_cur gt ${limits.perSource} }`,
  ];
}

/** Waits for the whole hello, or for the first byte of a request. */
function inspectLines({ timeouts }: Config, { agents }: Listener, hasHttp: boolean): readonly string[] {
  return [
    `tcp-request inspect-delay ${time(timeouts.helloMs)}`,
    `tcp-request content set-var(txn.host) req.ssl_sni,${NORMALIZED} if { req.ssl_sni -m found }`,
    `tcp-request content set-var(txn.wildcard) ${WILDCARD} if { var(txn.host) -m found }`,
    'acl is_tls req.ssl_hello_type 1',
    ...(hasHttp
      ? [
          'acl is_http req.payload(0,1) -m reg [A-Za-z]',
          'tcp-request content reject unless is_tls or is_http',
          ...(agents.length === 0 ? [] : ['tcp-request content reject if is_http { var(sess.id) -m found }']),
        ]
      : ['tcp-request content reject unless is_tls']),
  ];
}

function httpSections(config: Config, listener: Listener, name: string): readonly Section[] {
  const socket = `abns@causeway-http-${name}`;
  return [
    {
      comments: ['Requests: each is routed by its Host.'],
      head: `backend http_${name}`,
      lines: [`server http ${socket} send-proxy-v2`],
    },
    {
      head: `frontend requests_${name}`,
      lines: [
        'mode http',
        `bind ${socket} accept-proxy proto h1`,
        ...(isLogged(config) ? ['option httplog'] : []),
        '',
        'http-request deny deny_status 400 unless { req.hdr_cnt(host) eq 1 }',
        'http-request deny deny_status 403 if METH_CONNECT',
        `http-request set-var(txn.host) req.hdr(host),host_only,${NORMALIZED}`,
        `http-request set-var(txn.wildcard) ${WILDCARD}`,
        '',
        "http-request del-header '^x[-_]forwarded[-_]' -m reg",
        'http-request del-header Forwarded',
        'http-request set-header X-Forwarded-For %[src]',
        'http-request set-header X-Forwarded-Proto http',
        'http-request set-header X-Forwarded-Host %[req.hdr(host)]',
        '',
        '# An upgrade to h2c or TLS would carry requests past these rules.',
        ...upgradeLines(),
        '',
        ...httpRoutingLines(config.clusters, listener),
      ],
    },
  ];
}

function httpRoutingLines(clusters: Config['clusters'], listener: Listener): readonly string[] {
  const reachable = clusters.flatMap(cluster =>
    cluster.routes
      .filter(route => isHttpRoute(route) && isReachable(listener, route))
      .flatMap(route => route.hosts.map(host => ({ host, backend: backendName(cluster, route) }))),
  );
  const use = (variable: string, wanted: (host: string) => boolean) =>
    reachable
      .filter(({ host }) => wanted(host))
      .map(({ host, backend }) => `use_backend ${backend} if { var(txn.${variable}) -m str ${host} }`);
  const rest = reachable.find(({ host }) => host === '*');
  return [
    ...use('host', host => !host.startsWith('*')),
    ...use('wildcard', host => host.startsWith('*.')),
    `default_backend ${rest?.backend ?? `${REFUSED}_http`}`,
  ];
}
