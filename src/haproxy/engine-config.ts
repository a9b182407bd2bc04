// The configuration file of an HAProxy that we drive: everything that cannot change while it runs. Names, allow lists
// and servers are in files and in the runtime API (haproxy-table.ts). `render haproxy` writes another one, for people.
//
// A connection enters at `l<n>`, one frontend per listener: who is the client, what does it speak, which route. Cleartext
// HTTP goes on to `h<n>` over a unix socket, so that each connection is logged there once and each request here. Rules
// that refuse set `txn.reason` to a close reason and reject; log-line.ts reads the lines.

import type { CloseReason } from '../gateway/close-reason.ts';
import type { Listener } from '../gateway/control/open-listeners.ts';
import type { Settings } from '../gateway/stages/data-path.ts';
import { headerRules } from './engine-script.ts';
import { ALPN, HOSTS, HTTP_HOSTS, IDS, LIMITS, listFile, REDIRECT, UNRESOLVED } from './haproxy-table.ts';
import { dialErrorLines, errorLines, refusal } from './http-answers.ts';
import { CONNECTION_FORMAT, ERROR_FORMAT, REQUEST_FORMAT } from './log-line.ts';
import { LOG_SOCKET } from './log-socket.ts';
import type { RuntimeState } from './runtime-state.ts';
import { parseShape, type SectionCounts, type Shape, sectionName } from './sections.ts';
import { upgradeLines } from './upgrade-lines.ts';

export interface EngineConfig {
  /** The folder of the files and sockets of this process. */
  readonly folder: string;
  readonly listeners: readonly Listener[];
  /** By listener: the numbers of its open sockets in the new process. */
  readonly sockets: readonly (readonly number[])[];
  readonly settings: Settings;
  readonly threads: number;
  readonly sections: SectionCounts;
  /** By `section/server`: what a new process begins with. */
  readonly servers: RuntimeState['servers'];
  /** Protocols that routes name in `alpn`. */
  readonly alpn: readonly string[];
}

/** HAProxy wants timeouts, and 24 days are the most that it can count. */
const NEVER = '24d';
/** Connections of our own: to the runtime API and between frontends. */
const OWN_CONNECTIONS = 100;
/** Entries of the tables that count by source. */
const TABLE_ENTRIES = '100k';
/** Ids of idle sources are forgotten after this time. */
const TABLE_EXPIRE = '1m';
/** RFC 6066 with underscores, which people use: else SNI counts as none. */
const LEGAL_HOST = '^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?([.][a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$';
const IPV4_LITERAL = '^[0-9.]+$';
/** `so_id` of HTTP from a balancer that sent no PROXY header. */
const BALANCER_SOCKET = 1000;
/** A server line that no backend has. */
const NO_SERVER = { address: '0.0.0.0', port: 1, isUp: false };

/** More open connections than this, in multiples of `perSource`, are closed at once, as in our own data path. */
const FLOOD = 2;

/** For log lines on their way to us: tens of thousands. */
const RING = 'lines';
const RING_BYTES = 16 * 1024 * 1024;
const LINE_BYTES = 8192;

export const API_SOCKET = 'api.sock';
export const CONFIG_FILE = 'haproxy.cfg';
export const SCRIPT_FILE = 'engine.lua';

export function engineConfig(config: EngineConfig): string {
  return [
    globalSection(config),
    ringSection(config),
    defaultsSection(config.settings),
    ...config.listeners.flatMap((listener, index) => [
      listenerSection(config, listener, index),
      hopSection(config, index),
      httpSection(config, listener, index),
    ]),
    ...tables(config),
    ...[...config.sections].flatMap(([shape, count]) =>
      Array.from({ length: count }, (_, index) => backendSection(config, parseShape(shape), shape, index)),
    ),
  ].join('\n');
}

/** The allow lists of all sections: HAProxy refuses a rule whose file does not exist. */
export function listFilesOf(sections: SectionCounts): readonly string[] {
  return [...sections].flatMap(([shape, count]) =>
    parseShape(shape).isGuarded
      ? Array.from({ length: count }, (_, index) => listFile(sectionName(shape, index)))
      : [],
  );
}

function globalSection({ folder, settings, threads }: EngineConfig): string {
  return lines('global', [
    // Threads that share one script wait for each other, and HAProxy 2.6 then forgets connections for a minute.
    `lua-load-per-thread ${folder}/${SCRIPT_FILE}`,
    `stats socket ${folder}/${API_SOCKET} mode 600 level admin`,
    `log ring@${RING} len ${LINE_BYTES} format raw local0 info`,
    `nbthread ${threads}`,
    // With fewer open files than that takes, HAProxy would not start; `check` and the log warn of it.
    'no strict-limits',
    // Each HTTP connection counts twice; the limit itself is checked by a rule.
    `maxconn ${settings.connections + OWN_CONNECTIONS}`,
  ]);
}

function ringSection({ folder }: EngineConfig): string {
  return lines(`ring ${RING}`, [
    'format raw',
    `maxlen ${LINE_BYTES}`,
    `size ${RING_BYTES}`,
    'timeout connect 5s',
    `timeout server ${NEVER}`,
    `server us unix@${folder}/${LOG_SOCKET} log-proto legacy`,
  ]);
}

function defaultsSection(settings: Settings): string {
  const { connectMs, idleMs, halfClosedMs, keepaliveMs, retries } = settings;
  const idle = idleMs === undefined ? NEVER : `${idleMs}ms`;
  const halfClosed = halfClosedMs === undefined ? NEVER : `${halfClosedMs}ms`;
  return lines('defaults', [
    'mode tcp',
    'log global',
    `timeout connect ${connectMs}ms`,
    `timeout client ${idle}`,
    `timeout server ${idle}`,
    `timeout tunnel ${idle}`,
    `timeout client-fin ${halfClosed}`,
    `timeout server-fin ${halfClosed}`,
    `timeout queue ${connectMs}ms`,
    `retries ${retries}`,
    'option redispatch 1',
    // A client that closes while a server is dialled or is to answer is gone: HAProxy would wait for the answer forever.
    'option abortonclose',
    ...(keepaliveMs === undefined
      ? []
      : ['cli', 'srv'].flatMap(side => [
          `option ${side}tcpka`,
          `${side}tcpka-idle ${seconds(keepaliveMs)}`,
          `${side}tcpka-intvl ${seconds(keepaliveMs)}`,
        ])),
  ]);
}

/** Who is the client, what does it speak, and which route takes it. */
function listenerSection(config: EngineConfig, listener: Listener, index: number): string {
  const { folder, settings, alpn } = config;
  const hosts = `${folder}/${HOSTS}`;
  const stalled = settings.stalledMs === undefined ? '' : ` tcp-ut ${settings.stalledMs}ms`;
  const kinds = (listener.only ?? []).join(' ');
  return lines(`frontend l${index}`, [
    ...config.sockets[index].map(descriptor => `bind fd@${descriptor}${stalled}`),
    `log-format "${CONNECTION_FORMAT}"`,
    `error-log-format "${ERROR_FORMAT}"`,
    'tcp-request connection set-var(sess.peer) src',
    'tcp-request connection set-var(sess.peer_port) src_port',
    'tcp-request session set-var(sess.client) src',
    'tcp-request session set-var(sess.client_port) src_port',
    `tcp-request inspect-delay ${settings.helloMs}ms`,
    ...totalLimit(config),
    ...headerRules(listener),
    ...sourceLimit(config),
    'acl has_host var(txn.host) -m found',
    'acl has_route var(txn.target) -m found',
    'acl is_tls var(txn.protocol) -m str tls',
    'acl is_http var(txn.protocol) -m str http',
    // One byte suffices to refuse other protocols; the next rule waits for more.
    refuse(
      'not-recognized',
      '{ req.payload(0,1) -m found } !{ req.payload(0,1) -m bin 16 0d } !{ req.payload(0,1) -m reg ^[A-Z] } !{ var(sess.id) -m found }',
    ),
    content('reject if { var(txn.reason) -m found }'),
    content('set-var(txn.protocol) str(tls) if { req.ssl_hello_type 1 }'),
    content('set-var(txn.name) req.ssl_sni,lower if is_tls'),
    content(
      `set-var(txn.host) var(txn.name) if { var(txn.name) -m reg '${LEGAL_HOST}' } !{ var(txn.name) -m reg '${IPV4_LITERAL}' }`,
    ),
    content(`set-var(txn.wildcard) var(txn.host),regsub(^[^.]*,*) if has_host`),
    ...byId(config, listener),
    ...alpn.flatMap(protocol => byAlpn(config, protocol)),
    content(
      `set-var(txn.target) var(txn.host),map_str(${hosts}) if has_host !has_route !{ var(sess.id) -m found }`,
    ),
    content(
      `set-var(txn.target) var(txn.wildcard),map_str(${hosts}) if has_host !has_route !{ var(sess.id) -m found }`,
    ),
    ...alpn.map(protocol =>
      content(
        `set-var(txn.target) str(${protocol}/*),map_str(${folder}/${ALPN}) if is_tls !has_route !{ var(sess.id) -m found } ${offers(protocol)}`,
      ),
    ),
    content(`set-var(txn.target) str(*),map_str(${hosts}) if is_tls !has_route !{ var(sess.id) -m found }`),
    // What follows an id must be TLS.
    refuse(
      'not-recognized',
      '!is_tls !{ var(txn.reason) -m found } { var(sess.id) -m found } { req.payload(0,1) -m found } !{ req.payload(0,1) -m bin 16 }',
    ),
    // The first four bytes tell the rest apart: waiting for more would hold up what is too short.
    content(
      `set-var(txn.reason) str(untrusted-agent) if !is_tls !{ var(txn.reason) -m found } { req.payload(0,4) -m bin 0d0a0d0a } or !is_tls !{ var(txn.reason) -m found } { req.payload(0,4) -m str PROX CONN }`,
    ),
    content(
      `set-var(txn.protocol) str(http) if !is_tls !{ var(txn.reason) -m found } !{ var(sess.id) -m found } !{ req.payload(0,4) -m str "PRI " } { req.payload(0,4) -m reg '^[A-Z]{3}[A-Z ]$' }`,
    ),
    ...(settings.perSource === undefined
      ? []
      : [
          refuse(
            'over-limit',
            `!{ var(txn.reason) -m found } { var(sess.nth) -m int gt ${settings.perSource} }`,
          ),
        ]),
    // A balancer's probe may send its header and nothing else.
    refuse(
      'no-data',
      '!is_tls !is_http !{ var(txn.reason) -m found } !{ req.payload(0,1) -m found } !{ var(sess.agent_read) -m str header }',
    ),
    refuse('bad-hello', '!is_tls !is_http !{ var(txn.reason) -m found } { req.payload(0,1) -m bin 16 }'),
    refuse('not-recognized', '!is_tls !is_http !{ var(txn.reason) -m found }'),
    refuse('unknown-cluster', 'is_tls { var(sess.id) -m found } !has_route !{ var(txn.reason) -m found }'),
    refuse('no-sni', 'is_tls !has_host !has_route !{ var(txn.reason) -m found }'),
    refuse('unknown-host', 'is_tls !has_route !{ var(txn.reason) -m found }'),
    ...(listener.only === undefined
      ? []
      : [
          refuse('unknown-host', `has_route has_host !{ var(txn.target),field(4,/) -m str ${kinds} }`),
          refuse('no-sni', `has_route !has_host !{ var(txn.target),field(4,/) -m str ${kinds} }`),
        ]),
    ...reject(),
    content('set-var(txn.section) var(txn.target),field(1,/) if has_route'),
    ...clusterLimits(config, 'tcp-request content'),
    ...(listener.balancers.length === 0
      ? []
      : [`use_backend hop_b${index} if is_http from_balancer !{ var(sess.balancer_read) -m str header }`]),
    `use_backend hop_h${index} if is_http`,
    'use_backend %[var(txn.section)] if has_route',
  ]);
}

/** `limits.connections`: before the rules that wait for bytes. */
function totalLimit({ settings, listeners }: EngineConfig): string[] {
  const open = listeners.map((_, index) => `fe_conn(l${index})`);
  const sum = open.slice(1).reduce((text, _, index) => `${text},add(sess.open${index + 1})`, open[0]);
  return [
    ...open.slice(1).map((fetch, index) => content(`set-var(sess.open${index + 1}) ${fetch}`)),
    refuse('over-limit', `!{ var(sess.admitted) -m found } { ${sum} gt ${settings.connections} }`),
    content('reject if { var(txn.reason) -m found }'),
    // Rules are evaluated again with each byte: who was admitted stays so while others come.
    content('set-var(sess.admitted) bool(true)'),
  ];
}

/** `limits.perSource`: once the true client is known. */
function sourceLimit({ settings: { perSource } }: EngineConfig): string[] {
  return [
    ...(perSource === undefined
      ? []
      : [
          content('track-sc0 src table sources'),
          content('set-var(sess.nth) sc0_conn_cur if !{ var(sess.nth) -m found }'),
          // A flood is closed at once; fewer are refused in their own protocol, so that waits for the first bytes.
          refuse('over-limit', `{ var(sess.nth) -m int gt ${perSource * FLOOD} }`),
        ]),
    content('reject if { var(txn.reason) -m found }'),
  ];
}

/** An id fixes the cluster: SNI chooses among its routes, and without a match it is `api`. */
function byId({ folder }: EngineConfig, { agents }: Listener): string[] {
  if (agents.length === 0) return [];
  const ids = `${folder}/${IDS}`;
  return [
    content(`set-var(txn.key) var(sess.id),concat(/,txn.host) if has_host { var(sess.id) -m found }`),
    content(`set-var(txn.target) var(txn.key),map_str(${ids}) if has_host { var(sess.id) -m found }`),
    content(`set-var(txn.key) var(sess.id),concat(/,txn.wildcard) if has_host { var(sess.id) -m found }`),
    content(
      `set-var(txn.target) var(txn.key),map_str(${ids}) if has_host !has_route { var(sess.id) -m found }`,
    ),
    content(
      `set-var(txn.target) var(sess.id),map_str(${ids}) if is_tls !has_route { var(sess.id) -m found }`,
    ),
    refuse('unknown-cluster', `!is_tls { var(sess.id) -m found } !{ var(sess.id),map_str(${ids}) -m found }`),
  ];
}

function byAlpn({ folder }: EngineConfig, protocol: string): string[] {
  const map = `${folder}/${ALPN}`;
  return ['host', 'wildcard'].flatMap(name => [
    content(
      `set-var(txn.key) str(${protocol}/),concat(,txn.${name}) if has_host !has_route !{ var(sess.id) -m found } ${offers(protocol)}`,
    ),
    content(
      `set-var(txn.target) var(txn.key),map_str(${map}) if has_host !has_route !{ var(sess.id) -m found } ${offers(protocol)}`,
    ),
  ]);
}

function offers(protocol: string): string {
  return `{ req.ssl_alpn -m reg '(^|,)${escaped(protocol)}(,|$)' }`;
}

/** Hands a connection over to the HTTP frontend of the same listener, with the true client's address. */
function hopSection({ folder }: EngineConfig, index: number): string {
  return ['h', 'b']
    .map(socket =>
      lines(`backend hop_${socket}${index}`, [
        'no option abortonclose',
        `server http unix@${folder}/${socket}${index}.sock send-proxy-v2`,
      ]),
    )
    .join('\n');
}

/** Cleartext HTTP, routed by Host per request. */
function httpSection(config: EngineConfig, listener: Listener, index: number): string {
  const { folder, settings } = config;
  const hosts = `${folder}/${HTTP_HOSTS}`;
  const isServed = listener.only === undefined || listener.only.includes('apps-http');
  return lines(`frontend h${index}`, [
    'mode http',
    `bind unix@${folder}/h${index}.sock mode 600 accept-proxy`,
    `bind unix@${folder}/b${index}.sock mode 600 accept-proxy id ${BALANCER_SOCKET}`,
    `log-format "${REQUEST_FORMAT}"`,
    `error-log-format "${REQUEST_FORMAT}"`,
    `timeout http-request ${settings.helloMs}ms`,
    // Only while the client has to send or to read.
    ...(settings.stalledMs === undefined ? [] : [`timeout client ${settings.stalledMs}ms`]),
    ...errorLines(folder),
    `timeout http-keep-alive ${settings.idleMs === undefined ? '60s' : `${settings.idleMs}ms`}`,
    'acl has_route var(txn.target) -m found',
    'http-request set-var(txn.method) method',
    'http-request set-var(txn.host) req.hdr(host),host_only,lower,rtrim(.)',
    ...refuseRequest('bad-request', '!{ req.hdr_cnt(host) eq 1 }'),
    // A tunnel through a backend. As the first request of a connection it does not get here.
    ...refuseRequest('bad-request', 'METH_CONNECT'),
    ...(isServed ? byHost('target', hosts) : []),
    'http-request set-var(txn.authority) req.hdr(host),regsub(:80$,)',
    ...unknownHost(config, listener, isServed),
    'http-request set-var(txn.section) var(txn.target),field(1,/)',
    ...clusterLimits(config, 'http-request'),
    `http-request redirect code 308 location https://%[var(txn.authority)]%[pathq] if { var(txn.section) -m str ${REDIRECT} }`,
    ...requestHeaders(),
    'use_backend %[var(txn.section)] if has_route',
  ]);
}

/** Looks the host up in a map: as it is, as a wildcard, and `*`. */
function byHost(variable: string, map: string): string[] {
  const isMissing = `!{ var(txn.${variable}) -m found }`;
  return [
    `http-request set-var(txn.${variable}) var(txn.host),map_str(${map})`,
    `http-request set-var(txn.${variable}) var(txn.host),regsub(^[^.]*,*),map_str(${map}) if ${isMissing}`,
    `http-request set-var(txn.${variable}) str(*),map_str(${map}) if ${isMissing}`,
  ];
}

/** A host that this listener serves over TLS only is told so, as in served-over-tls.ts. */
function unknownHost({ folder }: EngineConfig, listener: Listener, isServed: boolean): string[] {
  const kinds = listener.only === undefined ? '-m found' : `-m str ${listener.only.join(' ')}`;
  const isOverTls = `!has_route { var(txn.over_tls),field(4,/) ${kinds} }`;
  const text = 'this host is served over TLS only: use https://%[var(txn.authority)]';
  const hint = ' (with \\"apps.http: redirect\\" the gateway would send clients there)';
  return [
    'http-request set-var(txn.reason) str(unknown-host) if !has_route',
    ...byHost('over_tls', `${folder}/${HOSTS}`),
    ...(isServed
      ? [refusal('unknown-host', `${isOverTls} { var(txn.over_tls),field(4,/) apps-https }`, text + hint)]
      : []),
    refusal('unknown-host', isOverTls, text),
    refusal('unknown-host', '!has_route'),
  ];
}

/** What a backend gets: who is the client, no headers that were for us alone, and the target without our own name. */
function requestHeaders(): string[] {
  // The peer is a balancer that sent no PROXY header.
  const isBalancer = `{ so_id ${BALANCER_SOCKET} }`;
  return [
    // The client's own words about who it is are not passed on.
    `http-request del-header forwarded if !${isBalancer}`,
    // With underscores too, which some servers read as hyphens.
    `http-request del-header '^x[-_]forwarded[-_]' -m reg if !${isBalancer}`,
    `http-request del-header '^x(_forwarded[-_]|-forwarded_)' -m reg if ${isBalancer}`,
    'http-request lua.drop_named if { req.hdr(connection) -m found }',
    ...upgradeLines(),
    'http-request del-header keep-alive',
    'http-request del-header proxy-connection',
    'http-request set-header TE trailers if { req.hdr(te) -m found }',
    // RFC 9110 8.6: a server may want a length of each request that could have a body.
    'http-request set-header Content-Length 0 if { method POST PUT PATCH } { req.hdr_cnt(content-length) eq 0 } { req.hdr_cnt(transfer-encoding) eq 0 }',
    // HTTP/1.0 has no 100 Continue.
    'http-request del-header expect if HTTP_1.0',
    'http-request set-header X-Forwarded-For %[req.fhdr(x-forwarded-for)],\\ %[src] if { req.hdr(x-forwarded-for) -m found }',
    'http-request set-header X-Forwarded-For %[src] if !{ req.hdr(x-forwarded-for) -m found }',
    'http-request set-header X-Forwarded-Proto http if !{ req.hdr(x-forwarded-proto) -m found }',
    'http-request set-header X-Forwarded-Host %[req.hdr(host)] if !{ req.hdr(x-forwarded-host) -m found }',
    'acl is_absolute url -m reg -i ^http://',
    'http-request set-var(txn.uri) url,regsub(^[^:]*://[^/?]*,) if is_absolute',
    'http-request set-uri %[var(txn.uri)] if is_absolute { var(txn.uri) -m beg / }',
    'http-request set-uri /%[var(txn.uri)] if is_absolute !{ var(txn.uri) -m beg / }',
  ];
}

function tables({ settings }: EngineConfig): string[] {
  const table = (name: string, type: string, store: string) =>
    lines(`backend ${name}`, [
      `stick-table type ${type} size ${TABLE_ENTRIES} expire ${TABLE_EXPIRE} store ${store}`,
    ]);
  return [
    ...(settings.perSource === undefined ? [] : [table('sources', 'ipv6', 'conn_cur')]),
    table('clusters', 'string len 16', 'conn_cur,gpc0,gpc0_rate(1s)'),
    table('cluster_sources', 'string len 64', 'conn_cur'),
  ];
}

function backendSection(config: EngineConfig, shape: Shape, text: string, index: number): string {
  const { mode, balance, proxyProtocol, isGuarded, servers } = shape;
  const section = sectionName(text, index);
  const isHttp = mode === 'http';
  const header = { none: '', v1: ' send-proxy', v2: ' send-proxy-v2' }[proxyProtocol];
  const stalled = config.settings.stalledMs === undefined ? '' : ` tcp-ut ${config.settings.stalledMs}ms`;
  const isUnresolved = `{ var(txn.target),field(5,/) -m str ${UNRESOLVED} }`;
  return lines(`backend ${section}`, [
    ...(isHttp
      ? [
          'mode http',
          // A section or a server line may become another cluster's, or get other backends: HAProxy would go on using
          // the connections that are left, for clients that it has already.
          'http-reuse never',
          'option http-server-close',
          ...errorLines(config.folder),
        ]
      : []),
    ...balanceLines(shape.balance, balance === 'host' ? 'var(txn.host)' : 'src'),
    ...(isGuarded ? guards(config, section, isHttp) : []),
    ...(isHttp
      ? [
          ...refuseRequest('connect-failed', `{ nbsrv eq 0 } ${isUnresolved}`),
          ...refuseRequest('no-backend', '{ nbsrv eq 0 }'),
          ...dialErrorLines(config.settings),
        ]
      : [
          refuse('connect-failed', `{ nbsrv eq 0 } ${isUnresolved}`),
          refuse('no-backend', '{ nbsrv eq 0 } !{ var(txn.reason) -m found }'),
          ...reject(),
        ]),
    ...Array.from({ length: servers }, (_, line) => {
      const name = `s${line + 1}`;
      const { address, port, isUp } = config.servers.get(`${section}/${name}`) ?? NO_SERVER;
      const place = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
      return `server ${name} ${place}${isUp ? '' : ' disabled'}${header}${stalled}`;
    }),
  ]);
}

function balanceLines(balance: Shape['balance'], key: string): string[] {
  if (balance === 'round-robin') return ['balance static-rr'];
  if (balance === 'least-connections') return ['balance leastconn'];
  if (balance === 'random') return ['balance random(1)'];
  return [`balance hash ${key}`, 'hash-type consistent'];
}

/**
 * The limits of the cluster that was found, for the guards of its section. Looked up here, since the time that HAProxy
 * takes to read a file of patterns grows with the number of all others, so with the square of the sections.
 */
function clusterLimits({ folder }: EngineConfig, rule: string): string[] {
  return [
    `${rule} set-var(txn.cluster) var(txn.target),field(3,/) if has_route`,
    ...Object.entries(LIMITS).map(
      ([key, file]) =>
        `${rule} set-var(txn.${key}) var(txn.cluster),map_str_int(${folder}/${file}) if has_route`,
    ),
  ];
}

/** Allow lists, then limits, as in our own data path. */
function guards(config: EngineConfig, section: string, isHttp: boolean): string[] {
  const { folder } = config;
  const rule = isHttp ? 'http-request' : 'tcp-request content';
  const over = (key: keyof typeof LIMITS, count: string) =>
    `${rule} set-var(txn.reason) str(over-limit) if { var(txn.${key}) -m found } { ${count},sub(txn.${key}) gt 0 }`;
  const end = (reason: CloseReason) =>
    isHttp ? [refusal(reason, '{ var(txn.reason) -m found }')] : reject();
  return [
    `${rule} set-var(txn.reason) str(not-allowed) if !{ src -f ${folder}/${listFile(section)} }`,
    ...end('not-allowed'),
    `${rule} set-var(txn.client) src`,
    `${rule} set-var(txn.source) var(txn.cluster),concat(/,txn.client)`,
    `${rule} track-sc1 var(txn.cluster) table clusters`,
    `${rule} track-sc2 var(txn.source) table cluster_sources`,
    over('connections', 'sc1_conn_cur'),
    over('perSource', 'sc2_conn_cur'),
    over('newPerSecond', 'sc1_gpc0_rate,add(1)'),
    ...end('over-limit'),
    // Only those that are admitted count: refused clients try again, and would keep others out.
    `${rule} sc-inc-gpc0(1)`,
  ];
}

function content(rule: string): string {
  return `tcp-request content ${rule}`;
}

function refuse(reason: string, condition: string): string {
  return content(`set-var(txn.reason) str(${reason}) if ${condition}`);
}

function refuseRequest(reason: CloseReason, condition: string): string[] {
  return [`http-request set-var(txn.reason) str(${reason}) if ${condition}`, refusal(reason, condition)];
}

/** A refused TLS client gets an alert first, and an HTTP client that is over a limit of the gateway an answer. */
function reject(): string[] {
  const isRefused = '{ var(txn.reason) -m found }';
  return [content(`lua.refusal if ${isRefused}`), content(`reject if ${isRefused}`)];
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1000))}s`;
}

function escaped(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9]/g, character => `[${character}]`);
}

function lines(head: string, body: readonly string[]): string {
  return `${head}\n${body.map(line => `  ${line}\n`).join('')}`;
}
