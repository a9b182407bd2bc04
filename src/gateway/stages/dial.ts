// dial: connects to a backend of the route. Each backend is tried once, the balanced one first; then the list again
// after the pauses of dial-policy.ts, until 1 + `retries` attempts are made or three times `timeouts.connect` has
// passed. A backend given by name is one backend: its addresses share one attempt. The client gets no answer until all
// have failed.

import { needsTls } from '../../cluster/cluster.ts';
import { isIpv4 } from '../../wire/ip-address.ts';
import { buildProxyV1, buildProxyV2, type Endpoint } from '../../wire/proxy-protocol.ts';
import { recognize } from '../../wire/recognize.ts';
import { AGAIN, EXHAUSTED, FAILED, READABLE, type SocketAddress, WRITABLE } from '../io/reactor.ts';
import {
  BACKEND_SIDE,
  CLIENT,
  CONNECT,
  CONNECTING,
  DESTINATION,
  DIALING,
  GREETING,
  HTTP,
  MORE,
  NO_PROTOCOL,
  OPEN,
  TLS,
  WITHIN_H2,
} from '../shared/rows.ts';
import type { TableBackend, TableRoute } from '../table/table.ts';
import { firstBackend, orderBackends } from './balance.ts';
import type { DataPath } from './data-path.ts';
import {
  type DialFailure,
  dialFailureIndex,
  dialFailures,
  failureOf,
  reasonOfFailure,
} from './dial-failure.ts';
import { attemptEnd, lastMoment, pauseBefore } from './dial-policy.ts';
import { end, refuse } from './end.ts';
import { beginExchange } from './exchange.ts';
import { give } from './give.ts';
import { dropHeld, FULL, heldBytes, readAhead, readHeld } from './held-bytes.ts';
import { closeKept, makeRoom } from './keep-backend.ts';
import { countBackend } from './record-end.ts';
import { beginTunnel } from './tunnel.ts';
import { buildUplinkConnect, buildUplinkHeader, readConnectAnswer } from './uplink.ts';

/** Bytes a client may send before its backend is connected; more stay in the kernel. */
const MAX_AHEAD = 64 * 1024;

const connectEstablished = Buffer.from('HTTP/1.1 200 Connection established\r\n\r\n', 'latin1');

export function dial(path: DataPath, client: number, route: TableRoute): void {
  const { rows, io } = path;
  rows.state[client] = DIALING;
  rows.dialAt[client] = io.now();
  path.wheel.clear(client);
  if (rows.input[client] !== OPEN && !awaitsAnswer(path, client)) return end(path, client, 'client-gone');
  if (route.backends.length === 0) return refuse(path, client, 'no-backend');
  const isOverTls = needsTls(route.uplink);
  if (isOverTls && path.streams === undefined) return give(path, client, 'uplink');
  choose(path, client, route, firstBackend(path, client, route));
  if (isOverTls) return path.streams?.dialUplink(client);
  tryBackend(path, client, route);
}

/** An event on the backend's socket. */
export function dialEvent(path: DataPath, backend: number, events: number): void {
  const client = path.rows.peer[backend];
  if ((events & FAILED) !== 0) return failed(path, client, backend, failureOf(path.io.failure(backend)));
  // A backend that speaks first may have done so already, and that edge is reported only once.
  if ((events & READABLE) !== 0) path.rows.flags[backend] |= MORE;
  if ((events & WRITABLE) === 0) return;
  // Some adapters know the descriptor only from now on.
  const isReserved = path.io.descriptor(backend) >= path.settings.clientFiles;
  if (isReserved && !makeRoom(path)) failed(path, client, backend, 'exhausted');
  else connected(path, client, backend);
}

/** The gateway answers an agent's CONNECT. */
export function greetingEvent(path: DataPath, backend: number): void {
  const { rows } = path;
  const client = rows.peer[backend];
  const answer = readConnectAnswer(path, backend);
  if (answer.kind === 'incomplete') return;
  if (answer.kind === 'broken') {
    path.uplinkRefused(0, '');
    return failed(path, client, backend, answer.failure);
  }
  if (answer.kind === 'refused') {
    path.uplinkRefused(answer.status, answer.reported);
    // Another gateway may have capacity (5xx); a request that one gateway forbids, all of them forbid.
    if (answer.status >= 500) return failed(path, client, backend, 'other');
    rows.detail[client] = dialFailureIndex.other;
    return refuse(path, client, 'connect-failed');
  }
  dropHeld(path, backend);
  rows.flags[backend] |= MORE;
  reached(path, client, backend, undefined, answer.rest.length === 0 ? undefined : answer.rest);
}

/** An attempt timed out (the backend's handle), or the next round begins (the client's handle). */
export function dialTimer(path: DataPath, handle: number): void {
  const { rows } = path;
  if (rows.state[handle] !== DIALING) return failed(path, rows.peer[handle], handle, 'timeout');
  const route = path.table.route(rows.slot[handle]);
  if (route === undefined || isLate(path, handle)) return giveUp(path, handle);
  if (route.backends.length === 0) return refuse(path, handle, 'no-backend');
  // The table may have changed during the pause.
  if (chosen(path, handle, route) === undefined)
    choose(path, handle, route, firstBackend(path, handle, route));
  tryBackend(path, handle, route);
}

/** The client sends bytes early, or leaves. */
export function clientWhileDialing(path: DataPath, client: number): void {
  const { rows } = path;
  if (rows.protocol[client] === HTTP) {
    if (readAhead(path, client) < 0) end(path, client, 'client-gone');
    return;
  }
  if (rows.input[client] !== OPEN) {
    if (!awaitsAnswer(path, client)) end(path, client, 'client-gone');
    return;
  }
  rows.flags[client] |= MORE;
  if ((rows.flags[client] & WITHIN_H2) !== 0) return;
  while (heldBytes(path, client) < MAX_AHEAD && (rows.flags[client] & MORE) !== 0) {
    const count = readHeld(path, client);
    if (count === AGAIN || count === FULL) break;
    if (count <= 0) return end(path, client, 'client-gone');
    rows.bytesIn[client] += count;
    path.countIn(client, count);
  }
  // An agent does not identify its clients; remember the protocol so that a refusal can be sent in it.
  if (rows.protocol[client] === NO_PROTOCOL && rows.held[client] !== undefined) {
    const protocol = recognize(rows.held[client], rows.understood[client], rows.heldTo[client]);
    if (protocol === 'tls') rows.protocol[client] = TLS;
  }
  path.streams?.clientSent(client);
}

/** A client that sends FIN after an HTTP request still expects the answer. The next stage reads the remaining bytes. */
function awaitsAnswer({ rows, io, scratch }: DataPath, client: number): boolean {
  const isWithinH2 = (rows.flags[client] & WITHIN_H2) !== 0;
  if (rows.protocol[client] !== HTTP && !isWithinH2) return false;
  if (isWithinH2 && io.read(client, scratch, 0, 0) < AGAIN) return false;
  rows.flags[client] |= MORE;
  return true;
}

/** Counts the connection for the backend now, so that a burst does not pile onto the backend with the fewest. */
function choose(path: DataPath, client: number, route: TableRoute, index: number): void {
  const { rows, shared } = path;
  rows.backend[client] = index;
  rows.addressIndex[client] = 0;
  countBackend(rows, shared, client, route.backends[index].slot);
}

/** The backend that the connection is counted for; undefined when a new table no longer has it in that place. */
function chosen({ rows }: DataPath, client: number, route: TableRoute): TableBackend | undefined {
  const backend = route.backends[rows.backend[client]];
  return backend?.slot === rows.backendSlot[client] ? backend : undefined;
}

function tryBackend(path: DataPath, client: number, route: TableRoute): void {
  const { rows } = path;
  const backend = route.backends[rows.backend[client]];
  if (reuse(path, client, backend.slot)) return;
  const { addresses } = backend;
  if (addresses.length === 0) rows.detail[client] = dialFailureIndex['name-not-found'];
  while (rows.addressIndex[client] < addresses.length) {
    const tried = rows.addressIndex[client];
    const error = connect(
      path,
      client,
      addresses[(backend.preferred + tried) % addresses.length],
      addresses.length - tried,
    );
    if (error === 0) return;
    rows.detail[client] = dialFailureIndex[failureOf(error)];
    rows.addressIndex[client]++;
  }
  nextAttempt(path, client, route);
}

/** Sends an HTTP request over a connection that has served others, if there is one. */
function reuse(path: DataPath, client: number, slot: number): boolean {
  const { rows, shared, wheel } = path;
  const exchange = path.exchanges[client];
  if (exchange?.mayReuse !== true) return false;
  const own = path.keptBackends.takeOwn(slot, client);
  const handle = own ?? (exchange.isShared ? path.keptBackends.take(slot) : undefined);
  if (handle === undefined) return false;
  if (own !== undefined) exchange.isShared = false;
  if (!exchange.isRepeatable && hasNews(path, handle)) {
    closeKept(path, handle);
    return false;
  }
  wheel.clear(handle);
  rows.clear(handle);
  rows.peer[handle] = client;
  rows.peer[client] = handle;
  rows.dialMs[client] = 0;
  path.dialOrders.delete(client);
  shared.counters.observeSeconds(rows.slot[client], 0);
  exchange.wasReused = true;
  beginExchange(path, client, handle, undefined);
  return true;
}

/** A request that cannot be repeated goes over no connection that is just closing: no event may have told so yet. */
function hasNews({ io, scratch }: DataPath, handle: number): boolean {
  return io.read(handle, scratch, 0, 1) !== AGAIN;
}

/** The kept connection had just closed: the request goes to the same backend again, over a new one. */
export function redial(path: DataPath, client: number): void {
  const exchange = path.exchanges[client];
  // The resumption was meant for an earlier state of this connection.
  if (exchange?.isRepeated !== true) return;
  exchange.isRepeated = false;
  const route = path.table.route(path.rows.slot[client]);
  if (route === undefined) return giveUp(path, client);
  path.rows.addressIndex[client] = 0;
  if (chosen(path, client, route) === undefined) {
    if (route.backends.length === 0) return refuse(path, client, 'no-backend');
    choose(path, client, route, firstBackend(path, client, route));
  }
  tryBackend(path, client, route);
}

/** Returns 0 or the reactor's error. The `left` addresses still to try share the remaining time of the attempt. */
function connect(path: DataPath, client: number, address: SocketAddress, left: number): number {
  const error = connectNow(path, client, address, left);
  return error === EXHAUSTED && makeRoom(path) ? connectNow(path, client, address, left) : error;
}

function connectNow(path: DataPath, client: number, address: SocketAddress, left: number): number {
  const { rows, io, settings } = path;
  const handle = io.connect(address);
  if (handle < 0) return handle;
  // Record the handle first: a fault from here on finds it in the client's row and closes it.
  rows.clear(handle);
  rows.state[handle] = CONNECTING;
  rows.side[handle] = BACKEND_SIDE;
  rows.peer[handle] = client;
  rows.peer[client] = handle;
  if (io.descriptor(handle) < settings.clientFiles) {
    path.wheel.set(
      handle,
      Math.min(io.now() + settings.connectMs / left, lastMoment(rows.dialAt[client], settings.connectMs)),
    );
    return 0;
  }
  // Descriptors from this number on are reserved: see open-files.ts.
  rows.peer[client] = -1;
  path.release(handle);
  io.close(handle);
  return EXHAUSTED;
}

/** An agent's gateway is reached over TLS, by that handle. */
export function reachedOverTls(path: DataPath, client: number, handle: number): void {
  const { rows } = path;
  rows.clear(handle);
  rows.state[handle] = CONNECTING;
  rows.side[handle] = BACKEND_SIDE;
  rows.peer[handle] = client;
  rows.peer[client] = handle;
  // No event announces what has arrived already.
  rows.flags[handle] |= MORE;
  const route = path.table.route(rows.slot[client]);
  const header = route?.uplink?.kind === 'tunnel' ? firstBytes(path, client, route) : undefined;
  reached(path, client, handle, header, undefined);
}

/** An agent's gateway was not reached over TLS. */
export function failedOverTls(path: DataPath, client: number, failure: DialFailure): void {
  path.rows.detail[client] = dialFailureIndex[failure];
  giveUp(path, client);
}

function failed(path: DataPath, client: number, handle: number, failure: DialFailure): void {
  const { rows, io } = path;
  rows.peer[client] = -1;
  path.release(handle);
  io.close(handle);
  rows.detail[client] = dialFailureIndex[failure];
  const route = path.table.route(rows.slot[client]);
  if (route === undefined || isLate(path, client)) return giveUp(path, client);
  const addresses = chosen(path, client, route)?.addresses ?? [];
  if (++rows.addressIndex[client] < addresses.length) return tryBackend(path, client, route);
  nextAttempt(path, client, route);
}

function nextAttempt(path: DataPath, client: number, route: TableRoute): void {
  const { rows, settings, wheel, io } = path;
  const attempt = ++rows.attempt[client];
  path.dialFailed(route, rows.backend[client]);
  if (route.backends.length === 0) return refuse(path, client, 'no-backend');
  let order = path.dialOrders.get(client);
  if (order === undefined || order.length !== route.backends.length) {
    const isGone = chosen(path, client, route) === undefined;
    const first = isGone ? firstBackend(path, client, route) : rows.backend[client];
    order = orderBackends(path, client, route, first);
    path.dialOrders.set(client, order);
  }
  const terms = {
    startedAt: rows.dialAt[client],
    connectMs: settings.connectMs,
    retries: settings.retries,
  };
  const pause = pauseBefore(attempt, order.length, terms, io.now());
  if (pause === undefined) return giveUp(path, client);
  choose(path, client, route, order[attempt % order.length]);
  if (pause === 0) return tryBackend(path, client, route);
  wheel.set(client, io.now() + pause);
}

/** Refuses with the reason of the last attempt. */
function giveUp(path: DataPath, client: number): void {
  const failure = dialFailures[path.rows.detail[client]];
  refuse(path, client, reasonOfFailure(failure === '' ? 'other' : failure));
}

function isLate(path: DataPath, client: number): boolean {
  return path.io.now() >= lastMoment(path.rows.dialAt[client], path.settings.connectMs);
}

function connected(path: DataPath, client: number, handle: number): void {
  const { rows, io, wheel, settings } = path;
  const route = path.table.route(rows.slot[client]);
  if (route?.uplink?.kind !== 'connect')
    return reached(
      path,
      client,
      handle,
      route && firstBytes(path, client, route),
      rows.protocol[client] === CONNECT ? connectEstablished : undefined,
    );
  // Wait for the gateway's answer to CONNECT, at most as long again as for the connect.
  const request = buildUplinkConnect(route.uplink);
  const written = io.write(handle, request, 0, request.length);
  if (written !== request.length) return failed(path, client, handle, failureOf(written));
  rows.state[handle] = GREETING;
  wheel.set(handle, attemptEnd(rows.dialAt[client], settings.connectMs, io.now()));
  if ((rows.flags[handle] & MORE) !== 0) greetingEvent(path, handle);
}

/** `header` goes to the backend, `answer` to the client, each before anything else. */
function reached(
  path: DataPath,
  client: number,
  handle: number,
  header: Uint8Array | undefined,
  answer: Uint8Array | undefined,
): void {
  const { rows, io, shared, wheel } = path;
  const route = path.table.route(rows.slot[client]);
  const backend = route && chosen(path, client, route);
  wheel.clear(handle);
  const dialMs = io.now() - rows.dialAt[client];
  rows.dialMs[client] = dialMs;
  shared.counters.observeSeconds(rows.slot[client], dialMs / 1000);
  if (backend !== undefined) {
    // Next time, try the address that worked first.
    backend.preferred = (backend.preferred + rows.addressIndex[client]) % backend.addresses.length;
  }
  path.dialOrders.delete(client);
  if (rows.protocol[client] === HTTP) return beginExchange(path, client, handle, header);
  // The backend gets the client's bytes without the headers meant for the gateway.
  const from = rows.understood[client];
  const held = rows.held[client];
  const to = rows.heldTo[client];
  rows.held[client] = undefined;
  rows.heldTo[client] = 0;
  if (header === undefined && from < to) return beginTunnel(path, client, handle, held, from, to, answer);
  const bytes = header && (held === undefined ? header : Buffer.concat([header, held.subarray(from, to)]));
  if (held !== undefined) path.holds.give(held);
  beginTunnel(path, client, handle, bytes, 0, bytes?.length ?? 0, answer);
}

function firstBytes(path: DataPath, client: number, route: TableRoute): Uint8Array | undefined {
  const { rows, io } = path;
  const { proxyProtocol, uplink } = route;
  if (proxyProtocol === 'none' && uplink === undefined) return undefined;
  if (rows.portOf(client, DESTINATION) === 0) {
    const port = io.localAddress(client, rows.addresses, rows.addressAt(client, DESTINATION));
    rows.setPort(client, DESTINATION, Math.max(port, 0));
  }
  const source = endpoint(path, client, CLIENT);
  const destination = endpoint(path, client, DESTINATION);
  if (uplink !== undefined) return buildUplinkHeader(uplink, source, destination);
  return proxyProtocol === 'v1' ? buildProxyV1(source, destination) : buildProxyV2({ source, destination });
}

function endpoint(path: DataPath, client: number, place: number): Endpoint {
  const { rows } = path;
  const at = rows.addressAt(client, place);
  const from = isIpv4(rows.addresses, at) ? at + 12 : at;
  return { address: rows.addresses.subarray(from, at + 16), port: rows.portOf(client, place) };
}
