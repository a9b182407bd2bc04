// dial and pass on, for one request: reaches a backend of the route, sends it the request, and sends the client its
// response. Bodies stream both ways with back-pressure. If a backend cannot be reached, another is tried by the same
// rules as for every connection; once bytes have gone to one, no other is tried.

import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { framingOf } from '../../wire/http-response.ts';
import { buildProxyV1, buildProxyV2 } from '../../wire/proxy-protocol.ts';
import { guard } from '../guard.ts';
import { firstBackend, orderBackends } from '../stages/balance.ts';
import { attemptEnd, type DialTerms, pauseBefore } from '../stages/dial-policy.ts';
import { countBackend } from '../stages/record-end.ts';
import type { TableRoute } from '../table/table.ts';
import { askBackend, requestText } from './ask-backend.ts';
import { type BackendRequest, DialError } from './backend-agent.ts';
import { type Exchange, hasBody } from './exchange.ts';
import { requestHeaders, responseHeaders, trailers } from './forward-headers.ts';
import { http } from './node-http.ts';
import { now, type RequestThread } from './request-thread.ts';
import { type AnswerHead, headText, sendInformational } from './send-informational.ts';

/** RFC 9110 9.2.2: these may be sent again, in case the backend is just closing the kept connection. */
const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE']);
/** Without a body, these need no length. Other methods must send `Content-Length: 0`. */
const bodiless: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE', 'TRACE', 'CONNECT']);

export function forward(thread: RequestThread, exchange: Exchange): void {
  const { route, row } = exchange;
  if (route === undefined) return;
  if (route.backends.length === 0) return thread.refuse(exchange, 'no-backend');
  exchange.dialAt = now();
  exchange.order = [firstBackend(thread, row, route)];
  attempt(thread, exchange, route);
}

function attempt(thread: RequestThread, exchange: Exchange, route: TableRoute, mayReuse = true): void {
  const { rows, shared, settings } = thread;
  const { row, order, request, judged, connection } = exchange;
  const backend = route.backends[order[exchange.attempt % order.length]];
  if (judged === undefined) return;
  const startedAt = now();
  countBackend(rows, shared, row, backend.slot);
  const method = request.method ?? 'GET';
  // A PROXY header ties the connection to one client.
  const isKept =
    mayReuse &&
    idempotent.has(method) &&
    route.proxyProtocol === 'none' &&
    exchange.upgradeHead === undefined &&
    !hasBody(request);
  const headers = headersFor(exchange, isKept);
  const options: BackendRequest = {
    agent: thread.single,
    method,
    path: judged.target,
    setHost: false,
    headers,
    backend,
    connectMs: Math.max(1, attemptEnd(exchange.dialAt, settings.connectMs, startedAt) - startedAt),
    keepaliveMs: settings.keepaliveMs,
    clientFiles: settings.clientFiles,
    header: proxyHeader(exchange, route),
    owner: connection,
  };
  if (isKept) {
    const text = requestText(method, judged.target, headers);
    if (text === undefined) return thread.refuse(exchange, 'bad-request');
    return askBackend(thread, exchange, options, text, {
      connected: wasKept => reached(thread, exchange, wasKept),
      failed: (cause, wasKept) => failed(thread, exchange, route, cause, wasKept),
    });
  }
  let upstream: ClientRequest;
  try {
    upstream = http.request(options);
  } catch {
    // The head has a byte that node:http accepts but refuses to write.
    return thread.refuse(exchange, 'bad-request');
  }
  exchange.upstream = upstream;
  // As for requests: any number of headers, within the size of a head.
  upstream.maxHeadersCount = 0;
  upstream.once(
    'socket',
    guard(connection, () => connected(thread, exchange, upstream)),
  );
  let answer: IncomingMessage | undefined;
  upstream.once(
    'response',
    guard(connection, (found: IncomingMessage) => {
      answer = found;
      respond(thread, exchange, found);
    }),
  );
  upstream.once(
    'upgrade',
    guard(connection, (answer: IncomingMessage, socket: Duplex, head: Buffer) =>
      splice(thread, exchange, answer, socket as Socket, head),
    ),
  );
  upstream.on(
    'information',
    guard(connection, (answer: AnswerHead) => sendInformational(exchange, answer)),
  );
  upstream.on(
    'error',
    guard(connection, (error: Error) => {
      // Errors after a complete response are ignored.
      if (exchange.upstream === upstream && answer?.complete !== true)
        failed(thread, exchange, route, error, false);
    }),
  );
}

function headersFor(exchange: Exchange, keepAlive: boolean): string[] {
  const { request, connection, judged, upgradeHead } = exchange;
  const isChunked = request.headers['transfer-encoding'] !== undefined;
  const isEmpty = !isChunked && request.headers['content-length'] === undefined;
  return requestHeaders(request.rawHeaders, {
    isHttp10: request.httpVersion === '1.0',
    client: connection.addressText,
    host: judged?.hostHeader ?? '',
    trustForwarded: connection.handOff.trustForwarded,
    upgrade: upgradeHead === undefined ? undefined : request.headers.upgrade,
    keepAlive,
    isChunked,
    isEmpty: isEmpty && !bodiless.has(request.method ?? ''),
  });
}

function proxyHeader({ connection }: Exchange, route: TableRoute): Uint8Array | undefined {
  if (route.proxyProtocol === 'none') return undefined;
  const source = { address: connection.address, port: connection.port };
  const destination = { address: connection.destination, port: connection.destinationPort };
  return route.proxyProtocol === 'v1'
    ? buildProxyV1(source, destination)
    : buildProxyV2({ source, destination });
}

/** The body is read only once there is a connection, so that another backend can be tried until then. */
function connected(thread: RequestThread, exchange: Exchange, upstream: ClientRequest): void {
  if (exchange.isOver) return;
  const { request, upgradeHead, connection } = exchange;
  reached(thread, exchange, false);
  if (upgradeHead !== undefined || !hasBody(request)) {
    upstream.end();
    return;
  }
  upstream.flushHeaders();
  request.pipe(upstream, { end: false });
  request.once(
    'end',
    guard(connection, () => {
      upstream.addTrailers(trailers(request.rawTrailers));
      upstream.end();
    }),
  );
}

function reached(thread: RequestThread, exchange: Exchange, wasKept: boolean): void {
  exchange.dialMs = wasKept ? 0 : now() - exchange.dialAt;
  thread.shared.counters.observeSeconds(exchange.route?.slot ?? 0, exchange.dialMs / 1000);
  thread.reportBackend(exchange);
}

function failed(
  thread: RequestThread,
  exchange: Exchange,
  route: TableRoute,
  error: Error,
  wasKept: boolean,
): void {
  if (exchange.isOver) return;
  if (error instanceof DialError) return dialAgain(thread, exchange, route, error);
  if (exchange.response.headersSent) return thread.cut(exchange, 'backend-reset');
  // The backend closed the kept connection just as we took it: retry once on a new one (RFC 9110 9.2.2).
  if (wasKept) return attempt(thread, exchange, route, false);
  thread.refuse(exchange, 'backend-reset');
}

function dialAgain(
  thread: RequestThread,
  exchange: Exchange,
  route: TableRoute,
  { failure }: DialError,
): void {
  thread.onDialFailed(thread.rows.backendSlot[exchange.row]);
  exchange.attempt++;
  if (exchange.attempt === 1) exchange.order = orderBackends(thread, exchange.row, route, exchange.order[0]);
  const next = () => pauseBefore(exchange.attempt, exchange.order.length, termsOf(thread, exchange), now());
  const pause = next();
  if (pause === undefined) return thread.giveUp(exchange, failure);
  if (pause === 0) return attempt(thread, exchange, route);
  setTimeout(
    guard(exchange.connection, () => {
      if (exchange.isOver) return;
      if (next() === undefined) thread.giveUp(exchange, failure);
      else attempt(thread, exchange, route);
    }),
    pause,
  );
}

function termsOf({ settings }: RequestThread, { dialAt }: Exchange): DialTerms {
  return { startedAt: dialAt, connectMs: settings.connectMs, retries: settings.retries };
}

function respond(thread: RequestThread, exchange: Exchange, answer: IncomingMessage): void {
  const { response, request, connection } = exchange;
  if (exchange.isOver) {
    answer.destroy();
    return;
  }
  answer.on(
    'error',
    guard(connection, () => thread.cut(exchange, 'backend-reset')),
  );
  if (framingOf(headOf(answer), request.method ?? '') === undefined)
    return thread.refuse(exchange, 'backend-reset');
  if (!request.complete || thread.isDraining) response.shouldKeepAlive = false;
  const isChunked =
    answer.headers['transfer-encoding'] !== undefined &&
    request.httpVersion === '1.1' &&
    request.method !== 'HEAD';
  try {
    response.writeHead(
      answer.statusCode ?? 502,
      answer.statusMessage,
      responseHeaders(answer.rawHeaders, { status: answer.statusCode, upgrade: false, isChunked }),
    );
  } catch {
    return thread.refuse(exchange, 'backend-reset');
  }
  exchange.status = answer.statusCode ?? 502;
  answer.pipe(response, { end: false });
  // node:http holds the head back until the first byte of the body, which may come much later, as with event streams.
  setImmediate(
    guard(connection, () => {
      if (!exchange.isOver && !answer.readableDidRead && !answer.readableEnded) response.flushHeaders();
    }),
  );
  answer.once(
    'end',
    guard(connection, () => {
      // The agent has the connection back, unless the response ended before the request was complete.
      if (exchange.upstream?.writableFinished === true) exchange.upstream = undefined;
      response.addTrailers(trailers(answer.rawTrailers));
      response.end();
    }),
  );
}

/** For the rules that also judge responses on kept connections. */
function headOf({ httpVersion, statusCode = 0, rawHeaders }: IncomingMessage) {
  return { version: httpVersion === '1.0' ? '1.0' : '1.1', status: statusCode, headers: rawHeaders } as const;
}

/** The backend switched protocols: from here on bytes pass unread, and each direction has its own FIN. */
function splice(
  thread: RequestThread,
  exchange: Exchange,
  answer: IncomingMessage,
  backend: Socket,
  head: Buffer,
): void {
  const { connection, response, upgradeHead } = exchange;
  const client = connection.socket;
  if (exchange.isOver || upgradeHead === undefined) {
    backend.destroy();
    if (!exchange.isOver) thread.refuse(exchange, 'backend-reset');
    return;
  }
  exchange.spliced = backend;
  exchange.status = 101;
  // Only from here on: before the switch, the backend's FIN must close its connection.
  backend.allowHalfOpen = true;
  backend.setTimeout(0);
  response.detachSocket(client);
  const headers = responseHeaders(answer.rawHeaders, { status: 101, upgrade: true, isChunked: false });
  client.write(headText(answer, headers), 'latin1');
  if (head.length > 0) client.write(head);
  if (upgradeHead.length > 0) backend.write(upgradeHead);
  backend.on(
    'error',
    guard(connection, () => thread.cut(exchange, 'backend-reset')),
  );
  client.on(
    'error',
    guard(connection, () => backend.destroy()),
  );
  client.pipe(backend);
  backend.pipe(client, { end: false });
  backend.once(
    'end',
    guard(connection, () => {
      thread.reportBackendFin(exchange);
      client.end();
    }),
  );
  let open = 2;
  const closed = guard(connection, () => {
    open--;
    if (open === 0) thread.endRequest(exchange);
  });
  client.once('close', closed);
  backend.once('close', closed);
}
