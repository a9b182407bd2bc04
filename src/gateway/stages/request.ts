// request: reads the head of an HTTP/1 request, judges it, routes it by its Host and admits it. A connection serves one
// request after another; each is routed anew, so that a kept connection never carries one tenant's request to another.

import { startChunkedBody } from '../../wire/chunked-body.ts';
import { parseRequestHead, type RequestHead } from '../../wire/http-request.ts';
import { formatIp } from '../../wire/ip-address.ts';
import { latin1 } from '../../wire/latin1.ts';
import { FAILED, TIMED_OUT } from '../io/reactor.ts';
import { BALANCED, BY_REQUEST, CLIENT, ENDED, KEPT, MORE, PEER, REQUESTING } from '../shared/rows.ts';
import type { TableRoute } from '../table/table.ts';
import { noLongerPending, takeLimits } from './admit.ts';
import type { DataPath } from './data-path.ts';
import { dial } from './dial.ts';
import { end, endInOrder, endWithReset, refuse } from './end.ts';
import { countBytes } from './end-request.ts';
import { redirect } from './exchange.ts';
import { type ExchangeState, newExchangeState, resetExchange } from './exchange-state.ts';
import { keepAliveMs } from './exchange-timer.ts';
import { writeRequestHead } from './forward-headers.ts';
import { dropUsed, heldBytes, readAhead } from './held-bytes.ts';
import { type JudgedRequest, judgeRequest, knownMethod, mayUpgrade } from './judge-request.ts';
import { closeKept } from './keep-backend.ts';
import { routeHttp } from './route.ts';
import { servedOverTls } from './served-over-tls.ts';

const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;

/** RFC 9110 9.2.2: these may be sent again, in case the backend is just closing the kept connection. */
const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE']);
/** Without a body, these need no length. Other methods must send `Content-Length: 0`. */
const bodiless: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE', 'TRACE']);

/** The first head has arrived. */
export function beginRequests(path: DataPath, client: number, head: RequestHead): void {
  const { rows } = path;
  noLongerPending(path, client);
  rows.flags[client] |= BY_REQUEST;
  // With a PROXY header the client is already known, and forwarding headers would be the client's own claims.
  const trustForwarded =
    rows.client[client] !== BALANCED &&
    path.listeners[rows.listener[client]]?.balancers?.admits(rows.addresses, rows.addressAt(client, PEER)) ===
      true;
  const text = formatIp(rows.addresses, rows.addressAt(client, CLIENT));
  const exchange = newExchangeState(text, trustForwarded);
  path.exchanges[client] = exchange;
  exchange.startedAt = rows.startedAt[client];
  serve(path, client, exchange, head);
}

export function requestEvent(path: DataPath, client: number, events: number): void {
  path.rows.flags[client] |= MORE;
  if ((events & FAILED) === 0) return readRequest(path, client);
  const error = readAhead(path, client);
  if (error === 0 && heldBytes(path, client) > 0) return readRequest(path, client);
  endWithReset(path, client, error === TIMED_OUT ? 'idle-timeout' : 'client-reset');
}

/** Reads what there is of the next request. */
export function readRequest(path: DataPath, client: number): void {
  const { rows, io, wheel, settings } = path;
  const exchange = path.exchanges[client];
  if (exchange === undefined) return;
  const hadBytes = heldBytes(path, client) > 0;
  const error = (rows.flags[client] & MORE) === 0 ? 0 : readAhead(path, client);
  if (error < 0) return endWithReset(path, client, error === TIMED_OUT ? 'idle-timeout' : 'client-reset');
  skipBlankLines(path, client);
  const isEnded = rows.input[client] >= ENDED;
  const held = rows.held[client];
  if (held === undefined || heldBytes(path, client) === 0) {
    if (isEnded) endInOrder(path, client, 'done');
    // Only blank lines came: the next request may take its time.
    else if (hadBytes) wheel.set(client, io.now() + keepAliveMs(path));
    return;
  }
  // A trickle of bytes does not extend the time for a head.
  if (!hadBytes) {
    exchange.startedAt = io.now();
    wheel.set(client, exchange.startedAt + settings.helloMs);
  }
  const head = parseRequestHead(held, rows.understood[client], rows.heldTo[client], path.requestHead);
  if (head.kind === 'found') serve(path, client, exchange, head.value);
  else if (head.kind === 'reject') forgetRequest(path, client, 'bad-request');
  else if (isEnded) refuse(path, client, 'client-gone');
}

/** The client has sent a part of a head for too long, or nothing. */
export function requestTimer(path: DataPath, client: number): void {
  const { idleMs } = path.settings;
  if (heldBytes(path, client) > 0) forgetRequest(path, client, 'hello-timeout');
  else if (idleMs !== undefined && idleMs === keepAliveMs(path)) end(path, client, 'idle-timeout');
  else endInOrder(path, client, 'done');
}

/** The request in progress is the last of its connection; connections without one end now. */
export function drainRequests(path: DataPath): void {
  const { rows } = path;
  path.isDraining = true;
  for (let handle = 0; handle < rows.used; handle++) {
    if (rows.state[handle] === KEPT) closeKept(path, handle);
    if (rows.state[handle] !== REQUESTING || heldBytes(path, handle) > 0) continue;
    try {
      endInOrder(path, handle, 'done');
    } catch (error) {
      path.contain(error, handle, -1);
    }
  }
}

/** Refuses what is not a request: the connection's record has no route then. */
function forgetRequest(path: DataPath, client: number, reason: 'bad-request' | 'hello-timeout'): void {
  forgetRoute(path, client);
  refuse(path, client, reason);
}

/** RFC 9112 2.2: some clients send an empty line behind a body. */
function skipBlankLines({ rows }: DataPath, client: number): void {
  const held = rows.held[client];
  if (held === undefined) return;
  while (
    rows.heldTo[client] - rows.understood[client] >= 2 &&
    held[rows.understood[client]] === CARRIAGE_RETURN &&
    held[rows.understood[client] + 1] === LINE_FEED
  )
    rows.understood[client] += 2;
}

function serve(path: DataPath, client: number, exchange: ExchangeState, head: RequestHead): void {
  const { rows, io, wheel } = path;
  const now = io.now();
  rows.state[client] = REQUESTING;
  wheel.clear(client);
  rows.understood[client] = head.end;
  const method = knownMethod(head);
  if (method === undefined) return forgetRequest(path, client, 'bad-request');
  const { isBehind } = exchange;
  resetExchange(exchange, now);
  forgetRoute(path, client);
  exchange.method = method;
  exchange.isHttp10 = head.isHttp10;
  const judged = judgeRequest(head, method, exchange.host);
  if (judged === undefined) return refuse(path, client, 'bad-request');
  const { host } = judged;
  exchange.host = host;
  if (host.isLegal) rows.host[client] = host.name;
  exchange.firstHost ??= rows.host[client];
  const listener = path.listeners[rows.listener[client]];
  const route = routeHttp(path.table, listener, host.name);
  if (typeof route === 'string') {
    const text = servedOverTls(path.table, listener, host.name, host.header);
    return refuse(path, client, route, route === 'unknown-host' ? text : undefined);
  }
  readFraming(exchange, judged);
  const refusal = takeLimits(rows, path.shared, client, route, now);
  countBytes(path, client, exchange);
  if (refusal !== undefined) return refuse(path, client, refusal);
  // An upgrade that is not granted would leave bytes behind it that nobody can read: so such a request is the last.
  exchange.keepAlive = judged.keepAlive && judged.upgrade === undefined && !path.isDraining;
  if (route.redirect) {
    const to = location(head, judged);
    dropUsed(path, client);
    return redirect(path, client, exchange, to);
  }
  writeHead(path, exchange, head, judged, route, isBehind);
  // The head's bytes may be overwritten from here on.
  dropUsed(path, client);
  dial(path, client, route);
}

/** The row has no route, until this request has one. */
function forgetRoute({ rows }: DataPath, client: number): void {
  rows.slot[client] = 0;
  rows.cluster[client] = 0;
  rows.backend[client] = -1;
  rows.backendSlot[client] = 0;
  rows.attempt[client] = 0;
  rows.addressIndex[client] = 0;
  rows.dialMs[client] = -1;
  rows.detail[client] = 0;
  rows.host[client] = undefined;
}

function readFraming(exchange: ExchangeState, { body }: JudgedRequest): void {
  exchange.isWhole = body === undefined || body === 0;
  if (body === 'chunked') exchange.body.chunks = startChunkedBody();
  else exchange.body.left = body ?? 0;
}

function writeHead(
  { scratch }: DataPath,
  exchange: ExchangeState,
  head: RequestHead,
  judged: JudgedRequest,
  { proxyProtocol }: TableRoute,
  isBehind: boolean,
): void {
  const { method, upgrade, body } = judged;
  exchange.mayUpgrade = !isBehind && mayUpgrade(judged, head.isHttp10);
  exchange.isRepeatable = idempotent.has(method) && exchange.isWhole;
  exchange.mayReuse = !exchange.mayUpgrade;
  // A PROXY header ties the connection to one client.
  exchange.isShared = exchange.isRepeatable && proxyProtocol === 'none' && exchange.mayReuse;
  exchange.isKept = exchange.isShared || (exchange.keepAlive && exchange.mayReuse);
  const length = writeRequestHead(scratch, head, judged, {
    client: exchange.client,
    lines: exchange.forwardedLines,
    trustForwarded: exchange.trustForwarded,
    upgrade: exchange.mayUpgrade ? upgrade : undefined,
    keepAlive: exchange.isKept,
    isEmpty: body === undefined && !bodiless.has(method),
  });
  exchange.head = latin1(scratch, 0, length);
}

function location({ bytes, targetFrom, targetTo }: RequestHead, { host, target }: JudgedRequest): string {
  const passed = target ?? latin1(bytes, targetFrom, targetTo);
  return `https://${host.header.replace(/:80$/, '')}${passed === '*' ? '/' : passed}`;
}
