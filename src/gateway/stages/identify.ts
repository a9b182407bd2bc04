// identify: reads the first bytes until the client and its destination are known. TLS, PROXY, CONNECT and HTTP share
// one port and are recognized by their first bytes. `timeouts.hello` counts from the accept.
//
// The client is the TCP peer or, when the peer is a balancer that sends a PROXY header, the source in that header. If
// the client is an agent, one more PROXY header may name a cluster by id, which may need a signature.

import { isHostname } from '../../cluster/hostname.ts';
import { parseClientHello } from '../../wire/client-hello.ts';
import { connectName, parseHttpHead } from '../../wire/http-head.ts';
import { parseRequestHead } from '../../wire/http-request.ts';
import { type Endpoint, type ProxyHeader, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { recognize } from '../../wire/recognize.ts';
import { AGAIN } from '../io/reactor.ts';
import {
  AGENT,
  AGENT_WITH_ORIGIN,
  BALANCED,
  CLIENT,
  CONNECT,
  COUNTED,
  DESTINATION,
  DIALING,
  H2,
  HTTP,
  KNOWN,
  MORE,
  NO_PROTOCOL,
  OPEN,
  ORIGIN,
  OVER,
  PEER,
  PENDING_COUNTED,
  TLS,
  TUNNELLED,
  UNKNOWN,
} from '../shared/rows.ts';
import { TUNNEL_SLOT } from '../shared/shared-memory.ts';
import { GATEWAY_SCOPE, PENDING_SCOPE } from '../shared/source-counts.ts';
import type { TableListener } from '../table/listener-table.ts';
import type { TableRoute } from '../table/table.ts';
import { admit, noLongerPending } from './admit.ts';
import type { DataPath } from './data-path.ts';
import { clientWhileDialing, dial } from './dial.ts';
import { end, refuse } from './end.ts';
import { give } from './give.ts';
import { FULL, readHeld } from './held-bytes.ts';
import { beginRequests } from './request.ts';
import { routeConnect, routeTls } from './route.ts';
import { refusedId, spendSignature, verifyConnect, verifyHeader } from './verify-identity.ts';

/** A source with this many times its limit is closed at once, without waiting for a protocol to refuse it in. */
const FLOOD = 2;

/** Reads the available bytes. Called at accept and whenever the client has more. */
export function identify(path: DataPath, client: number): void {
  const { rows } = path;
  for (;;) {
    const count = readHeld(path, client);
    if (count === AGAIN) return;
    if (count === FULL) return refuse(path, client, 'not-recognized');
    if (count <= 0) return clientLeft(path, client);
    rows.bytesIn[client] += count;
    if (!understand(path, client, rows.held[client] as Uint8Array, rows.heldTo[client])) return;
    if ((rows.flags[client] & MORE) === 0 && rows.input[client] === OPEN) return;
  }
}

/** For an agent's listener: every client goes to the same cluster, whatever it sends. */
export function dialDirect(path: DataPath, client: number, cluster: string): void {
  proceed(path, client, path.table.clusters.get(cluster)?.api ?? 'no-backend');
  // No event announces bytes that have already arrived.
  if (path.rows.state[client] === DIALING) clientWhileDialing(path, client);
}

/** `timeouts.hello` expired. */
export function identifyTimer(path: DataPath, client: number): void {
  refuse(path, client, refusedId(path, client) ?? 'hello-timeout');
}

/**
 * Call once the true client is known: counts it for `pendingPerSource` and `perSource`. False when that ended the
 * connection. A client over `perSource` is refused in its own protocol, so that refusal waits for its first byte.
 */
export function knowClient(path: DataPath, client: number, known = KNOWN): boolean {
  const { rows, settings, shared } = path;
  rows.client[client] = known;
  if (!countPending(path, client)) return false;
  const limit = settings.perSource;
  if (limit === undefined) return true;
  const at = rows.addressAt(client, CLIENT);
  const count = shared.sources.add(GATEWAY_SCOPE, rows.addresses, at, rows, client, COUNTED);
  if (count > FLOOD * limit) {
    end(path, client, 'over-limit');
    return false;
  }
  if (count > limit) rows.flags[client] |= OVER;
  return true;
}

/** The same for a stream within a connection that counts already: it is pending until it is routed. */
export function knowTunnelled(path: DataPath, client: number): boolean {
  path.rows.flags[client] |= TUNNELLED;
  path.rows.client[client] = BALANCED;
  return countPending(path, client);
}

/** Balancers carry many clients' connections and are exempt. False when the source has too many and this one ended. */
function countPending(path: DataPath, client: number): boolean {
  const { rows, settings, shared, listeners } = path;
  const limit = settings.pendingPerSource;
  if (limit === undefined) return true;
  const at = rows.addressAt(client, CLIENT);
  if (listeners[rows.listener[client]]?.balancers?.admits(rows.addresses, at) === true) return true;
  const count = shared.sources.add(PENDING_SCOPE, rows.addresses, at, rows, client, PENDING_COUNTED);
  if (count <= limit) return true;
  end(path, client, 'over-limit');
  return false;
}

/** The client closed or reset before its destination was known. */
function clientLeft(path: DataPath, client: number): void {
  const { rows } = path;
  const silent = rows.bytesIn[client] === (rows.client[client] < AGENT ? rows.understood[client] : 0);
  end(path, client, silent ? 'no-data' : (refusedId(path, client) ?? 'client-gone'));
}

/** True when more bytes are needed; false when the connection moved to another stage or ended. */
function understand(path: DataPath, client: number, held: Uint8Array, used: number): boolean {
  const { rows } = path;
  for (;;) {
    const from = rows.understood[client];
    const protocol = recognize(held, from, used);
    if (protocol === 'incomplete') return true;
    if (protocol === 'proxy') {
      const more = readProxyHeader(path, client, held, from, used);
      if (more !== undefined) return more;
      continue;
    }
    if (rows.client[client] === UNKNOWN && !knowClient(path, client)) return false;
    const id = rows.clusterId[client];
    if ((rows.flags[client] & TUNNELLED) !== 0 && protocol !== 'tls')
      return notTls(path, client, 'not-recognized');
    switch (protocol) {
      case 'tls':
        rows.protocol[client] = TLS;
        if ((rows.flags[client] & OVER) !== 0) return refused(path, client, 'over-limit');
        return readHello(path, client, held, from, used);
      case 'connect':
        rows.protocol[client] = CONNECT;
        if ((rows.flags[client] & OVER) !== 0) return refused(path, client, 'over-limit');
        return readConnect(path, client, held, from, used, id);
      case 'http':
      case 'h2':
        if (id !== undefined) return notTls(path, client, 'not-recognized');
        rows.protocol[client] = protocol === 'http' ? HTTP : H2;
        if ((rows.flags[client] & OVER) !== 0) return refused(path, client, 'over-limit');
        return protocol === 'http' ? readHttp(path, client, held, from, used) : readH2(path, client);
      default:
        return notTls(path, client, 'not-recognized');
    }
  }
}

function refused(path: DataPath, client: number, reason: Parameters<typeof refuse>[2], text?: string): false {
  refuse(path, client, reason, text);
  return false;
}

/** Only TLS may follow a header with an id; otherwise there is no protocol to answer in. */
function notTls(path: DataPath, client: number, reason: 'not-recognized' | 'bad-proxy-header'): false {
  path.rows.protocol[client] = NO_PROTOCOL;
  return refused(path, client, refusedId(path, client) ?? reason);
}

/** undefined: the header is consumed and the bytes after it can be examined. */
function readProxyHeader(
  path: DataPath,
  client: number,
  held: Uint8Array,
  from: number,
  used: number,
): boolean | undefined {
  const { rows } = path;
  const { balancers, agents } = listenerOf(path, client);
  // The first header of a peer in both lists is the balancer's.
  const fromBalancer =
    rows.client[client] < BALANCED &&
    balancers?.admits(rows.addresses, rows.addressAt(client, PEER)) === true;
  if (!fromBalancer) {
    if (rows.client[client] >= AGENT) return refused(path, client, 'bad-proxy-header');
    const isTrusted =
      (rows.flags[client] & TUNNELLED) !== 0 ||
      agents?.admits(rows.addresses, rows.addressAt(client, CLIENT)) === true;
    if (!isTrusted) return refused(path, client, 'untrusted-agent');
  }
  const header = parseProxyHeader(held, from, used);
  if (header.kind === 'incomplete') return true;
  if (header.kind === 'reject') return refused(path, client, 'bad-proxy-header');
  rows.understood[client] = header.value.end;
  if (fromBalancer) return takeBalancerHeader(path, client, header.value) ? undefined : false;
  return takeAgentHeader(path, client, header.value) ? undefined : false;
}

function takeBalancerHeader(path: DataPath, client: number, header: ProxyHeader): boolean {
  if (header.command === 'proxy' && header.source !== undefined && header.destination !== undefined) {
    putEndpoint(path, client, CLIENT, header.source);
    putEndpoint(path, client, DESTINATION, header.destination);
  }
  return knowClient(path, client, BALANCED);
}

function takeAgentHeader(path: DataPath, client: number, header: ProxyHeader): boolean {
  const { rows } = path;
  rows.client[client] = AGENT;
  if (header.source !== undefined) {
    putEndpoint(path, client, ORIGIN, header.source);
    rows.client[client] = AGENT_WITH_ORIGIN;
  }
  const { idTlv } = listenerOf(path, client);
  for (const tlv of header.tlvs) {
    if (!idTlv.has(tlv.type)) continue;
    const id = Buffer.from(tlv.value.buffer, tlv.value.byteOffset, tlv.value.length).toString('latin1');
    const before = rows.clusterId[client];
    if (before !== undefined && before !== id) return refused(path, client, 'bad-proxy-header');
    rows.clusterId[client] = id;
  }
  const refusal = verifyHeader(path, client, header);
  return refusal === undefined || refused(path, client, refusal);
}

function putEndpoint(path: DataPath, client: number, place: number, endpoint: Endpoint): void {
  const { rows } = path;
  const at = rows.addressAt(client, place);
  if (endpoint.address.length === 4) {
    rows.addresses.fill(0, at, at + 10).fill(255, at + 10, at + 12);
    rows.addresses.set(endpoint.address, at + 12);
  } else {
    rows.addresses.set(endpoint.address, at);
  }
  rows.setPort(client, place, endpoint.port);
}

/** A tunnelled connection must be signed, so neither address lists nor `only` apply to it. */
const tunnelled: TableListener = {
  on: '',
  balancers: undefined,
  agents: undefined,
  idTlv: new Set([0x20]),
  only: undefined,
  direct: undefined,
};

function listenerOf({ rows, listeners }: DataPath, client: number): TableListener {
  return (rows.flags[client] & TUNNELLED) === 0 ? listeners[rows.listener[client]] : tunnelled;
}

function readHello(path: DataPath, client: number, held: Uint8Array, from: number, used: number): boolean {
  const { rows, table } = path;
  if (used < rows.needed[client]) return true;
  const hello = parseClientHello(held, from, used);
  if (hello.kind === 'incomplete') {
    rows.needed[client] = from + (hello.need ?? 0);
    return true;
  }
  const id = rows.clusterId[client];
  if (hello.kind === 'reject') {
    return refused(path, client, refusedId(path, client) ?? 'bad-hello');
  }
  const { serverName, alpn } = hello.value;
  const listener = listenerOf(path, client);
  const route = routeTls(table, listener, serverName, alpn, id);
  // The log shows only legal hostnames. A name that selected a route is one.
  const named = id === undefined && typeof route !== 'string' && table.catchAll === undefined;
  if (serverName !== undefined && (named || isHostname(serverName))) rows.host[client] = serverName;
  return proceed(path, client, refusedId(path, client) ?? route);
}

function readConnect(
  path: DataPath,
  client: number,
  held: Uint8Array,
  from: number,
  used: number,
  id: string | undefined,
): boolean {
  const { rows, table } = path;
  const listener = listenerOf(path, client);
  if (id === undefined && listener.agents?.admits(rows.addresses, rows.addressAt(client, CLIENT)) !== true) {
    return refused(path, client, 'untrusted-agent');
  }
  const head = parseHttpHead(held, from, used);
  if (head.kind === 'incomplete') return true;
  if (head.kind === 'reject') return refused(path, client, 'bad-request');
  const name = connectName(head.value);
  if (name === undefined) return refused(path, client, 'bad-request');
  rows.host[client] = name;
  const route = routeConnect(table, listener, name);
  if (id !== undefined) {
    const agrees = typeof route !== 'string' && route.cluster.id === id;
    return notTls(path, client, agrees ? 'not-recognized' : 'bad-proxy-header');
  }
  rows.understood[client] = head.value.end;
  const unproven =
    typeof route === 'string' ? undefined : verifyConnect(path, client, route.cluster, head.value);
  return proceed(path, client, unproven ?? route);
}

/** Waits for the first request's head. */
function readHttp(path: DataPath, client: number, held: Uint8Array, from: number, used: number): boolean {
  const head = parseRequestHead(held, from, used, path.requestHead);
  if (head.kind === 'incomplete') return true;
  if (head.kind === 'reject') return refused(path, client, 'bad-request');
  beginRequests(path, client, head.value);
  return false;
}

/** HTTP/2 carries only CONNECT streams. */
function readH2(path: DataPath, client: number): false {
  if (!path.mayGive) return refused(path, client, 'not-recognized');
  noLongerPending(path, client);
  give(path, client, 'h2');
  return false;
}

function proceed(path: DataPath, client: number, route: TableRoute | Parameters<typeof refuse>[2]): false {
  if (typeof route === 'string') return refused(path, client, route);
  if (route.slot === TUNNEL_SLOT) {
    noLongerPending(path, client);
    give(path, client, 'tunnel-end');
    return false;
  }
  const refusal = admit(path, client, route) ?? spendSignature(path, client, route.cluster);
  if (refusal !== undefined) return refused(path, client, refusal);
  dial(path, client, route);
  return false;
}
