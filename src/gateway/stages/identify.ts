// identify: reads the first bytes until it is known who the client is and what it asks for. TLS, PROXY, CONNECT
// and HTTP are told apart by their first bytes, on one port. `timeouts.hello` counts from the accept.
//
// Who is the client: the TCP peer; or, when the peer is a balancer and sends a PROXY header, the source in it.
// Then, when that client is an agent, one more PROXY header may name a cluster by id, which may have to be proven.

import { isHostname } from '../../cluster/hostname.ts';
import { parseClientHello } from '../../wire/client-hello.ts';
import { connectName, hostOf, parseHttpHead } from '../../wire/http-head.ts';
import { type Endpoint, type ProxyHeader, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { recognize } from '../../wire/recognize.ts';
import { AGAIN } from '../io/reactor.ts';
import { readHandOff } from '../shared/hand-off.ts';
import {
  AGENT_HEADER,
  BALANCER_HEADER,
  CLIENT,
  CLIENT_KNOWN,
  CONNECT,
  COUNTED,
  DESTINATION,
  DIALING,
  H2,
  HAS_ORIGIN,
  HTTP,
  HUNG,
  MORE,
  NO_PROTOCOL,
  ORIGIN,
  OVER,
  PEER,
  PENDING_COUNTED,
  RETURNED,
  TLS,
  TUNNELLED,
} from '../shared/rows.ts';
import { FIRST_SLOT, HANDED_OVER_SHARE, HTTP_SLOT, TOTAL_HANDED_OFF } from '../shared/shared-memory.ts';
import { GATEWAY_SCOPE, PENDING_SCOPE } from '../shared/source-counts.ts';
import type { TableListener } from '../table/listener-table.ts';
import type { TableRoute } from '../table/table.ts';
import { admit, noLongerPending } from './admit.ts';
import type { DataPath } from './data-path.ts';
import { clientWhileDialing, dial } from './dial.ts';
import { end, endWithReset, refuse } from './end.ts';
import { routeConnect, routeTls } from './route.ts';
import { servedOverTls } from './served-over-tls.ts';
import { refusedId, spendSignature, verifyConnect, verifyHeader } from './verify-identity.ts';

/** A source with this many times its share of connections is not even waited for to say why. */
const FLOOD = 2;

/** Reads what is there. Called at accept and whenever the client has more. */
export function identify(path: DataPath, client: number): void {
  const { rows, io } = path;
  for (;;) {
    let held = rows.kept[client] ?? path.holds.take();
    rows.kept[client] = held;
    let used = rows.keptTo[client];
    if (used === held.length) {
      const larger = path.holds.grow(held, used);
      if (larger === undefined) return refuse(path, client, 'not-recognized');
      held = larger;
      rows.kept[client] = held;
    }
    const count = io.read(client, held, used, held.length);
    if (count === AGAIN) {
      // A client that has not spoken yet owns no buffer.
      if (used === 0) {
        path.holds.give(held);
        rows.kept[client] = undefined;
      }
      return;
    }
    if (count <= 0) return left(path, client);
    if (used + count === held.length) rows.flags[client] |= MORE;
    else rows.flags[client] &= ~MORE;
    used += count;
    rows.keptTo[client] = used;
    rows.bytesIn[client] += count;
    if (!understand(path, client, held, used)) return;
    if ((rows.flags[client] & (MORE | HUNG)) === 0) return;
  }
}

/** An agent has one place to go to, whatever the client says. */
export function goStraight(path: DataPath, client: number, cluster: string): void {
  proceed(path, client, path.table.clusters.get(cluster)?.api ?? 'no-backend');
  // What it has said already does not come as an event.
  if (path.rows.state[client] === DIALING) clientWhileDialing(path, client);
}

/** `hello` ran out. */
export function identifyTimer(path: DataPath, client: number): void {
  refuse(path, client, refusedId(path, client) ?? 'hello-timeout');
}

/**
 * The true client is known from here on: it counts for `pendingPerSource` and `perSource`. False when the connection has
 * ended by that. Being one too many for `perSource` is said in the client's protocol, so it waits for the first byte.
 */
export function knowClient(path: DataPath, client: number): boolean {
  const { rows, settings, shared } = path;
  rows.flags[client] |= CLIENT_KNOWN;
  if (!countPending(path, client)) return false;
  const limit = settings.perSource;
  if (limit === undefined) return true;
  const count = shared.sources.add(GATEWAY_SCOPE, rows.addresses, rows.addressAt(client, CLIENT));
  if (count < 0) return true;
  rows.flags[client] |= COUNTED;
  if (count > FLOOD * limit) {
    end(path, client, 'over-limit');
    return false;
  }
  if (count > limit) rows.flags[client] |= OVER;
  return true;
}

/** Balancers bring the clients of many, and are not counted. False when the source has too many, and this one has ended. */
function countPending(path: DataPath, client: number): boolean {
  const { rows, settings, shared, listeners } = path;
  const limit = settings.pendingPerSource;
  if (limit === undefined) return true;
  const at = rows.addressAt(client, CLIENT);
  if (listeners[rows.listener[client]]?.balancers?.admits(rows.addresses, at) === true) return true;
  const count = shared.sources.add(PENDING_SCOPE, rows.addresses, at);
  if (count < 0) return true;
  rows.flags[client] |= PENDING_COUNTED;
  if (count <= limit) return true;
  end(path, client, 'over-limit');
  return false;
}

/** The client closed or reset before it was known what it wants. */
function left(path: DataPath, client: number): void {
  const { rows } = path;
  const silent =
    rows.bytesIn[client] === ((rows.flags[client] & AGENT_HEADER) === 0 ? rows.understood[client] : 0);
  end(path, client, silent ? 'no-data' : (refusedId(path, client) ?? 'client-gone'));
}

/** True when more bytes are needed; false when the connection went on to another stage or ended. */
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
    if ((rows.flags[client] & CLIENT_KNOWN) === 0 && !knowClient(path, client)) return false;
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

function ended(path: DataPath, client: number, reason: Parameters<typeof end>[2]): false {
  end(path, client, reason);
  return false;
}

function refused(path: DataPath, client: number, reason: Parameters<typeof refuse>[2], text?: string): false {
  refuse(path, client, reason, text);
  return false;
}

/** What follows a header with an id must be TLS; there is no other protocol to answer in. */
function notTls(path: DataPath, client: number, reason: 'not-recognized' | 'bad-proxy-header'): false {
  path.rows.protocol[client] = NO_PROTOCOL;
  return refused(path, client, refusedId(path, client) ?? reason);
}

/** undefined when the header is read and the next bytes can be looked at. */
function readProxyHeader(
  path: DataPath,
  client: number,
  held: Uint8Array,
  from: number,
  used: number,
): boolean | undefined {
  const { rows } = path;
  const { balancers, agents, isInternal } = listenerOf(path, client);
  const flags = rows.flags[client];
  if (isInternal) return comeBack(path, client, held, from, used);
  // A peer in both lists: its first header is the balancer's.
  const fromBalancer =
    (flags & (BALANCER_HEADER | AGENT_HEADER)) === 0 &&
    balancers?.admits(rows.addresses, rows.addressAt(client, PEER)) === true;
  if (!fromBalancer) {
    if ((flags & AGENT_HEADER) !== 0) return refused(path, client, 'bad-proxy-header');
    const isTrusted =
      (flags & TUNNELLED) !== 0 || agents?.admits(rows.addresses, rows.addressAt(client, CLIENT)) === true;
    if (!isTrusted) return refused(path, client, 'untrusted-agent');
  }
  const header = parseProxyHeader(held, from, used);
  if (header.kind === 'incomplete') return true;
  if (header.kind === 'reject') return refused(path, client, 'bad-proxy-header');
  rows.understood[client] = header.value.end;
  if (fromBalancer) return takeBalancerHeader(path, client, header.value) ? undefined : false;
  return takeAgentHeader(path, client, header.value) ? undefined : false;
}

/** From a part of ours: whose connection it is, and by which listener it came in. */
function comeBack(
  path: DataPath,
  client: number,
  held: Uint8Array,
  from: number,
  used: number,
): boolean | undefined {
  const { rows } = path;
  const header = parseProxyHeader(held, from, used);
  if (header.kind === 'incomplete') return true;
  const reported = header.kind === 'found' ? readHandOff(header.value) : undefined;
  if (header.kind === 'reject' || reported === undefined) return refused(path, client, 'bad-proxy-header');
  rows.understood[client] = header.value.end;
  rows.listener[client] = reported.listener;
  if (reported.isH2) takeStream(path, client);
  if (header.value.source !== undefined) putEndpoint(path, client, PEER, header.value.source);
  if (reported.isTunnelled) {
    // The agent may have left meanwhile, and its handle may be another's by now.
    if (!path.shared.verdicts.isCurrent(reported.handle, reported.generation))
      return ended(path, client, 'client-gone');
    rows.flags[client] |= TUNNELLED | CLIENT_KNOWN;
    path.tunnelLinks.add(reported, client);
  }
  if (!takeBalancerHeader(path, client, header.value)) return false;
  if (path.listeners[reported.listener] !== undefined || reported.isTunnelled) return undefined;
  // It was closed before this worker started, so that nobody knows what was allowed there.
  endWithReset(path, client, 'revoked');
  return false;
}

/** A stream takes more descriptors than others too, and shares the room of all that parts of ours have to do with. */
function takeStream({ rows, shared, settings }: DataPath, client: number): void {
  rows.flags[client] |= RETURNED;
  shared.verdicts.begin(client);
  if (Atomics.add(shared.totals, TOTAL_HANDED_OFF, 1) >= settings.connections * HANDED_OVER_SHARE)
    rows.flags[client] |= OVER;
}

function takeBalancerHeader(path: DataPath, client: number, header: ProxyHeader): boolean {
  const { rows } = path;
  rows.flags[client] |= BALANCER_HEADER;
  if (header.command === 'proxy' && header.source !== undefined && header.destination !== undefined) {
    putEndpoint(path, client, CLIENT, header.source);
    putEndpoint(path, client, DESTINATION, header.destination);
  }
  // What came through a tunnel counts for its source already; but what is inside may keep us waiting as well.
  return (rows.flags[client] & CLIENT_KNOWN) === 0 ? knowClient(path, client) : countPending(path, client);
}

function takeAgentHeader(path: DataPath, client: number, header: ProxyHeader): boolean {
  const { rows } = path;
  rows.flags[client] |= AGENT_HEADER;
  if (header.source !== undefined) {
    putEndpoint(path, client, ORIGIN, header.source);
    rows.flags[client] |= HAS_ORIGIN;
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

/** What came through a tunnel has proven whose it is: no list of addresses, and no `only`, stands in its way. */
const tunnelled: TableListener = {
  on: '',
  balancers: undefined,
  agents: undefined,
  idTlv: new Set([0x20]),
  only: undefined,
  direct: undefined,
  isInternal: false,
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
  // What the log shows is a name, whatever bytes the client sent for one. A name that has led to a route is one.
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

/** The first request's head is waited for here; what it says is judged, as that of every request, by the HTTP part. */
function readHttp(path: DataPath, client: number, held: Uint8Array, from: number, used: number): boolean {
  const { rows } = path;
  const head = parseHttpHead(held, from, used);
  if (head.kind === 'incomplete') return true;
  if (head.kind === 'reject') return refused(path, client, 'bad-request');
  const host = hostOf(head.value);
  if (host !== undefined && isHostname(host)) rows.host[client] = host;
  const route = path.table.route(HTTP_SLOT);
  if (route !== undefined) return toThread(path, client, route);
  // No route needs the HTTP part, so there is none, and every host is unknown over HTTP.
  if (host === undefined) return refused(path, client, 'bad-request');
  const authority = head.value.headers.find(([name]) => name === 'host')?.[1] ?? host;
  const text = servedOverTls(path.table, listenerOf(path, client), host, authority);
  return refused(path, client, 'unknown-host', text);
}

/** Where nobody may send CONNECT there is no HTTP part. */
function readH2(path: DataPath, client: number): false {
  const route = path.table.route(HTTP_SLOT);
  return route === undefined ? refused(path, client, 'not-recognized') : toThread(path, client, route);
}

/** A part of ours admits by itself, or sends back what is admitted then. */
function toThread(path: DataPath, client: number, route: TableRoute): false {
  noLongerPending(path, client);
  path.rows.slot[client] = route.slot;
  dial(path, client, route);
  return false;
}

function proceed(path: DataPath, client: number, route: TableRoute | Parameters<typeof refuse>[2]): false {
  if (typeof route === 'string') return refused(path, client, route);
  if (route.slot < FIRST_SLOT) return toThread(path, client, route);
  const refusal = admit(path, client, route) ?? spendSignature(path, client, route.cluster);
  if (refusal !== undefined) return refused(path, client, refusal);
  dial(path, client, route);
  return false;
}
