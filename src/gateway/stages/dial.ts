// dial: connects to a backend of the route. Each backend is tried once, the balanced one first; then the list again
// after the pauses of dial-policy.ts, until 1 + `retries` attempts are made or three times `timeouts.connect` has
// passed. A backend given by name is one backend: its addresses share one attempt. The client gets no answer until all
// have failed.

import { needsTls } from '../../cluster/cluster.ts';
import { isIpv4 } from '../../wire/ip-address.ts';
import { buildProxyV1, buildProxyV2, type Endpoint } from '../../wire/proxy-protocol.ts';
import { recognize } from '../../wire/recognize.ts';
import { AGAIN, EXHAUSTED, FAILED, READABLE, type SocketAddress, WRITABLE } from '../io/reactor.ts';
import { buildHandOff, rowHeader } from '../shared/hand-off.ts';
import {
  BACKEND_SIDE,
  BALANCER_HEADER,
  CLIENT,
  CONNECT,
  CONNECTING,
  DESTINATION,
  DIALING,
  GREETING,
  H2,
  HANDED_OFF,
  HUNG,
  LENT,
  MORE,
  NO_PROTOCOL,
  PEER,
  RETURNED,
  TLS,
} from '../shared/rows.ts';
import { FIRST_SLOT, HANDED_OFF_SHARE, HTTP_SLOT, TOTAL_HANDED_OFF } from '../shared/shared-memory.ts';
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
import { countBackend } from './record-end.ts';
import { beginTunnel } from './tunnel.ts';
import { buildUplinkConnect, buildUplinkHeader, readConnectAnswer } from './uplink.ts';

/** Bytes a client may send before its backend is connected; more stay in the kernel. */
const MAX_AHEAD = 64 * 1024;

const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n';
const connectEstablished = Buffer.from(`${ESTABLISHED}\r\n`, 'latin1');

export function dial(path: DataPath, client: number, route: TableRoute): void {
  const { rows, io } = path;
  rows.state[client] = DIALING;
  rows.dialAt[client] = io.now();
  path.wheel.clear(client);
  if ((rows.flags[client] & HUNG) !== 0 && !awaitsAnswer(path, client))
    return end(path, client, 'client-gone');
  if (route.backends.length === 0) return refuse(path, client, 'no-backend');
  if (isHandedOff(route) && !handOff(path, client)) return refuse(path, client, 'over-limit');
  choose(path, client, route, firstBackend(path, client, route));
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
  if (path.io.descriptor(backend) >= path.settings.clientFiles) failed(path, client, backend, 'exhausted');
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
  const hold = rows.held[backend];
  if (hold !== undefined) path.holds.give(hold);
  rows.held[backend] = undefined;
  rows.heldTo[backend] = 0;
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
  const { rows, io } = path;
  if ((rows.flags[client] & HUNG) !== 0) {
    if (!awaitsAnswer(path, client)) end(path, client, 'client-gone');
    return;
  }
  rows.flags[client] |= MORE;
  while (rows.heldTo[client] - rows.understood[client] < MAX_AHEAD) {
    let held = rows.held[client] ?? path.holds.take();
    rows.held[client] = held;
    if (rows.heldTo[client] === held.length) {
      const larger = path.holds.grow(held, rows.heldTo[client]);
      if (larger === undefined) return;
      held = larger;
      rows.held[client] = held;
    }
    const count = io.read(client, held, rows.heldTo[client], held.length);
    if (count === AGAIN) break;
    if (count <= 0) return end(path, client, 'client-gone');
    const filled = rows.heldTo[client] + count === held.length;
    rows.heldTo[client] += count;
    rows.bytesIn[client] += count;
    path.countIn(client, count);
    if (!filled) break;
  }
  // An agent does not identify its clients; remember the protocol so that a refusal can be sent in it.
  if (rows.protocol[client] === NO_PROTOCOL && rows.held[client] !== undefined) {
    const protocol = recognize(rows.held[client], rows.understood[client], rows.heldTo[client]);
    if (protocol === 'tls') rows.protocol[client] = TLS;
  }
  // Only a client that exceeded MAX_AHEAD has more to read.
  if (rows.heldTo[client] - rows.understood[client] < MAX_AHEAD) rows.flags[client] &= ~MORE;
}

/** A client that sends FIN after an HTTP request still expects the answer. The tunnel reads the remaining bytes. */
function awaitsAnswer({ rows }: DataPath, client: number): boolean {
  if (rows.slot[client] !== HTTP_SLOT) return false;
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

/** Returns 0 or the reactor's error. The `left` addresses still to try share the remaining time of the attempt. */
function connect(path: DataPath, client: number, address: SocketAddress, left: number): number {
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
  // A dead protocol thread restarts within moments. `retries` applies to backends, and to shortages of our own.
  const isAwaited = isHandedOff(route) && rows.detail[client] !== dialFailureIndex.exhausted;
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
    retries: isAwaited ? Infinity : settings.retries,
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
    return reached(path, client, handle, route && firstBytes(path, client, route), answerOf(path, client));
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
    // Rotate among our own threads; for a real backend, try the address that worked first next time.
    const isHanded = (rows.flags[client] & HANDED_OFF) !== 0;
    const used = (backend.preferred + rows.addressIndex[client]) % backend.addresses.length;
    backend.preferred = isHanded ? (used + 1) % backend.addresses.length : used;
    // Threads are the backends of our own routes, and the addresses of the only backend of an agent's route.
    if (isHanded) rows.thread[client] = backend.addresses.length > 1 ? used : rows.backend[client];
  }
  path.dialOrders.delete(client);
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

/** The answer that reports success to the client. */
function answerOf(path: DataPath, client: number): Uint8Array | undefined {
  const { rows, worker, shared } = path;
  if (rows.protocol[client] !== CONNECT) return undefined;
  if ((rows.flags[client] & RETURNED) === 0) return connectEstablished;
  const row = { worker, handle: client, generation: shared.verdicts.generation(client) };
  return Buffer.from(`${ESTABLISHED}${rowHeader(row)}\r\n`, 'latin1');
}

function firstBytes(path: DataPath, client: number, route: TableRoute): Uint8Array | undefined {
  const { rows, io } = path;
  const { proxyProtocol, uplink } = route;
  const isHanded = isHandedOff(route);
  if (proxyProtocol === 'none' && uplink === undefined && !isHanded) return undefined;
  if (rows.portOf(client, DESTINATION) === 0) {
    const port = io.localAddress(client, rows.addresses, rows.addressAt(client, DESTINATION));
    rows.setPort(client, DESTINATION, Math.max(port, 0));
  }
  const source = endpoint(path, client, CLIENT);
  const destination = endpoint(path, client, DESTINATION);
  if (isHanded) return handOffHeader(path, client, source, destination);
  if (uplink !== undefined) return buildUplinkHeader(uplink, source, destination);
  return proxyProtocol === 'v1' ? buildProxyV1(source, destination) : buildProxyV2({ source, destination });
}

/** Connections that a protocol thread takes over: HTTP, and everything that needs TLS. */
function isHandedOff({ slot, uplink }: TableRoute): boolean {
  return slot < FIRST_SLOT || needsTls(uplink);
}

/** False when too many are handed off already. */
function handOff(path: DataPath, client: number): boolean {
  const { rows, shared, settings } = path;
  shared.verdicts.begin(client);
  const others = Atomics.add(shared.totals, TOTAL_HANDED_OFF, 1);
  rows.flags[client] |= HANDED_OFF;
  return others < settings.connections * HANDED_OFF_SHARE;
}

/** Everything the protocol thread needs to know, besides the client. */
function handOffHeader(path: DataPath, client: number, source: Endpoint, destination: Endpoint): Uint8Array {
  const { rows, shared } = path;
  const listener = rows.listener[client];
  return buildHandOff(source, destination, {
    worker: path.worker,
    handle: client,
    generation: shared.verdicts.generation(client),
    listener,
    isH2: rows.protocol[client] === H2,
    isTunnelled: false,
    lentBehind: lend(path, client) ? rows.heldTo[client] - rows.understood[client] : undefined,
    // With a PROXY header the client is already known, and forwarding headers would be the client's own claims.
    trustForwarded:
      (rows.flags[client] & BALANCER_HEADER) === 0 &&
      path.listeners[listener]?.balancers?.admits(rows.addresses, rows.addressAt(client, PEER)) === true,
  });
}

/**
 * Gives the HTTP thread a second descriptor of the client, where the reactor can: bytes that the thread moves itself
 * are neither copied nor awaited here. The connection to the thread stays as the link: each side sees the other one
 * end.
 */
function lend({ rows, io, shared }: DataPath, client: number): boolean {
  if (rows.slot[client] !== HTTP_SLOT || rows.protocol[client] === H2) return false;
  if (!shared.verdicts.lend(client, io)) return false;
  // Bytes, or the FIN, that arrived since are for the HTTP thread to read.
  rows.flags[client] = (rows.flags[client] & ~(MORE | HUNG)) | LENT;
  return true;
}

function endpoint(path: DataPath, client: number, place: number): Endpoint {
  const { rows } = path;
  const at = rows.addressAt(client, place);
  const from = isIpv4(rows.addresses, at) ? at + 12 : at;
  return { address: rows.addresses.subarray(from, at + 16), port: rows.portOf(client, place) };
}
