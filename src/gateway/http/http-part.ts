// The HTTP part: a gateway's cleartext HTTP, behind the layer-4 front. The front hands connections over on a unix
// socket; here each request is judged, routed by its Host, admitted, and passed on to a backend. One HTTP thread has
// one of these. What a connection comes to goes back to the front as a verdict (verdicts.ts).

import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  ServerResponse,
} from 'node:http';
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import { setImmediate as soon } from 'node:timers/promises';
import { mapIp } from '../../wire/ip-address.ts';
import { MAX_PROXY_HEADER, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { leavePlace, reasonIndex } from '../account.ts';
import { isAllowed, type Places, takePlace } from '../admit.ts';
import type { CloseReason } from '../close-reason.ts';
import type { Settings } from '../data-path.ts';
import { readHandOver } from '../hand-over.ts';
import type { TableListener } from '../listener-table.ts';
import { refusalWord } from '../refusal.ts';
import { routeHttp } from '../route.ts';
import { CLIENT, HTTP, REQUEST, type Rows } from '../rows.ts';
import { BYTES_IN_AT, BYTES_OUT_AT, type RequestCounters } from '../shared-memory.ts';
import type { Table } from '../table.ts';
import type { Verdicts } from '../verdicts.ts';
import { BackendAgent } from './backend-agent.ts';
import type { Exchange, HttpConnection, Incoming } from './exchange.ts';
import { forward } from './forward.ts';
import { H2Connect } from './h2-connect.ts';
import { judgeRequest } from './judge-request.ts';
import type { RequestLog } from './request-log.ts';

/** The limit of the front's own parser. */
const MAX_HEAD = 16_384;
/** How often node:http looks for heads that take too long, and we for clients that the front has let go of. */
const LOOK_MS = 250;
/** An idle connection is kept this long for a further request, or `timeouts.idle` where that is shorter. */
const KEEP_ALIVE_MS = 75_000;
/** Requests that a client may send ahead of an answer. Debian's apt sends 10. */
const MAX_AHEAD = 100;
/** The client left before it was answered: nginx's number for it. */
const CLIENT_LEFT = 499;

const httpWord = new Map<CloseReason, { readonly word: Buffer; readonly status: number }>();

export interface HttpShared extends Places {
  readonly requests: RequestCounters;
}

export interface HttpPartOptions {
  readonly rows: Rows;
  readonly shared: HttpShared;
  readonly table: Table;
  /** By worker. */
  readonly verdicts: readonly Verdicts[];
  readonly settings: Settings;
  readonly log: RequestLog;
  readonly onDialFailed: (backendSlot: number) => void;
}

export class HttpPart {
  readonly rows: Rows;
  readonly shared: HttpShared;
  readonly table: Table;
  readonly listeners: TableListener[] = [];
  settings: Settings;
  /** Connections for requests that may be sent again, and for those that have one of their own. */
  readonly pooled = new BackendAgent(true);
  readonly single = new BackendAgent(false);
  readonly onDialFailed: (backendSlot: number) => void;
  /** Connections that speak HTTP/2: CONNECT alone, which goes back to the front. */
  readonly h2: H2Connect;
  readonly #verdicts: readonly Verdicts[];
  readonly #log: RequestLog;
  readonly #connections = new Map<Socket, HttpConnection>();
  readonly #freeRows: number[] = [];
  #usedRows = 0;
  readonly #http: Server;
  readonly #front: NetServer;
  readonly #look: NodeJS.Timeout;
  #draining = false;

  constructor(options: HttpPartOptions) {
    this.rows = options.rows;
    this.shared = options.shared;
    this.table = options.table;
    this.settings = options.settings;
    this.onDialFailed = options.onDialFailed;
    this.#verdicts = options.verdicts;
    this.h2 = new H2Connect(options.verdicts, options.settings);
    this.#log = options.log;
    this.#http = this.#createServer();
    this.#front = createServer({ allowHalfOpen: true }, socket => this.#accept(socket));
    this.#look = setInterval(() => this.#lookAround(), LOOK_MS);
    this.configure(options.settings);
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  async listen(path: string): Promise<void> {
    this.#front.listen({ path, backlog: 4096 });
    await new Promise<void>((resolve, reject) => {
      this.#front.once('listening', resolve);
      this.#front.once('error', reject);
    });
  }

  configure(settings: Settings): void {
    this.settings = settings;
    this.h2.settings = settings;
    this.#http.headersTimeout = settings.helloMs;
    this.#http.keepAliveTimeout = Math.min(KEEP_ALIVE_MS, settings.idleMs ?? KEEP_ALIVE_MS);
  }

  /** After a table change: requests whose cluster or route is gone, or whose client is no longer allowed, end. */
  revoke(): void {
    for (const { current } of this.#connections.values()) {
      if (current === undefined || current.row < 0) continue;
      const route = this.table.route(this.rows.slot[current.row]);
      const at = this.rows.addressAt(current.row, CLIENT);
      if (route === undefined || !isAllowed(route, this.rows.addresses, at)) this.cut(current, 'revoked');
    }
  }

  /** What is in progress may finish, with `Connection: close`; what is idle ends now. */
  drain(): void {
    this.#draining = true;
    this.h2.drain();
    for (const { current } of this.#connections.values()) {
      if (current !== undefined && current.upgradeHead === undefined)
        current.response.shouldKeepAlive = false;
    }
    this.#http.closeIdleConnections();
  }

  /** Closes everything, so that the thread can end. */
  async stop(): Promise<void> {
    clearInterval(this.#look);
    this.#front.close();
    this.h2.stop();
    for (const socket of this.#connections.keys()) socket.destroy();
    this.pooled.destroy();
    this.single.destroy();
    await soon();
    this.#log.flush();
  }

  #createServer(): Server {
    const server = createHttpServer({
      maxHeaderSize: MAX_HEAD,
      // A missing Host has its reason, as every refusal.
      requireHostHeader: false,
      requestTimeout: 0,
      connectionsCheckingInterval: LOOK_MS,
      shouldUpgradeCallback: request => wantsUpgrade(request),
    });
    // A client may say FIN behind its request and still hear the answer. Not in the documentation.
    (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
    server.on('request', (request, response) => this.#arrived(request, response, undefined));
    // The backend says whether to continue.
    server.on('checkContinue', (request, response) => this.#arrived(request, response, undefined));
    server.on('checkExpectation', (request, response) => this.#arrived(request, response, undefined));
    server.on('upgrade', (request, socket, head) => {
      const response = new ServerResponse(request);
      response.assignSocket(socket as Socket);
      response.shouldKeepAlive = false;
      this.#arrived(request, response, head);
    });
    // CONNECT is the front's, and only as the first thing that a client says.
    server.on('connect', (_, socket) => this.#refuseSocket(socket as Socket, 'bad-request'));
    server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      this.#clientError(error, socket as Socket),
    );
    return server;
  }

  /** The front's header comes first, then the client's bytes. */
  #accept(socket: Socket): void {
    let held: Buffer = Buffer.alloc(0);
    socket.on('error', () => {});
    const onData = (chunk: Buffer) => {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const header = parseProxyHeader(held, 0, held.length);
      if (header.kind === 'incomplete' && held.length < MAX_PROXY_HEADER) return;
      const told = header.kind === 'found' ? readHandOver(header.value) : undefined;
      if (header.kind !== 'found' || told === undefined || header.value.source === undefined) {
        socket.destroy();
        return;
      }
      const { source, destination = source, end } = header.value;
      socket.off('data', onData);
      socket.pause();
      if (told.isH2) return this.h2.serve({ socket, told, source, destination }, held.subarray(end));
      this.#connections.set(socket, {
        socket,
        told,
        address: mapIp(source.address),
        port: source.port,
        destination: destination.address,
        destinationPort: destination.port,
        current: undefined,
        waiting: [],
        countedIn: end,
        countedOut: 0,
      });
      socket.once('close', () => this.#closed(socket));
      socket.unshift(held.subarray(end));
      this.#http.emit('connection', socket);
      socket.resume();
    };
    socket.on('data', onData);
  }

  #arrived(request: IncomingMessage, response: ServerResponse, upgradeHead: Buffer | undefined): void {
    const connection = this.#connections.get(request.socket);
    if (connection === undefined) return;
    const incoming = { request, response, upgradeHead };
    if (connection.current === undefined) this.#serve(connection, incoming);
    else if (connection.waiting.push(incoming) > MAX_AHEAD) {
      this.#say(connection, connection.current, 'over-limit');
      request.socket.destroy();
    }
  }

  #serve(connection: HttpConnection, incoming: Incoming): void {
    const exchange: Exchange = {
      ...incoming,
      connection,
      startedAt: now(),
      row: -1,
      route: undefined,
      judged: undefined,
      order: [],
      attempt: 0,
      dialAt: 0,
      dialMs: -1,
      upstream: undefined,
      spliced: undefined,
      status: 0,
      isOver: false,
    };
    connection.current = exchange;
    exchange.response.sendDate = false;
    if (this.#draining) exchange.response.shouldKeepAlive = false;
    exchange.response.prependListener('finish', () => this.#answered(exchange));
    exchange.response.once('close', () => this.#left(exchange));
    const refusal = this.#begin(exchange);
    if (refusal !== undefined) this.refuse(exchange, refusal);
    else if (exchange.route?.redirect === true) redirect(exchange);
    else forward(this, exchange);
  }

  /** Judges, routes and admits. Answers the reason for a refusal. */
  #begin(exchange: Exchange): CloseReason | undefined {
    const { connection, request } = exchange;
    const judged = judgeRequest(request);
    this.#say(connection, undefined, undefined);
    if (judged === undefined) return 'bad-request';
    exchange.judged = judged;
    const route = routeHttp(this.table, this.listeners[connection.told.listener], judged.host);
    if (typeof route === 'string') return route;
    const row = this.#takeRow();
    if (row === undefined) return 'over-limit';
    exchange.row = row;
    exchange.route = route;
    this.rows.addresses.set(connection.address, this.rows.addressAt(row, CLIENT));
    this.rows.setPort(row, CLIENT, connection.port);
    this.rows.host[row] = judged.host;
    const refusal = takePlace(this.rows, this.shared, row, route, exchange.startedAt);
    this.#say(connection, exchange, undefined);
    return refusal;
  }

  /** Answers with the reason's status and closes: a refusal is the connection's end. */
  refuse(exchange: Exchange, reason: CloseReason): void {
    if (exchange.isOver) return;
    const { status, word } = wordFor(reason);
    const { connection, request, response } = exchange;
    const started = response.headersSent;
    if (!started) exchange.status = status;
    this.#say(connection, exchange, reason, started);
    this.finish(exchange, true);
    const { socket } = connection;
    if (started || socket.destroyed) {
      socket.destroy();
      return;
    }
    const end = request.method === 'HEAD' ? word.indexOf('\r\n\r\n') + 4 : word.length;
    socket.end(word.subarray(0, end), () => socket.destroy());
    this.#countBytes(connection, exchange);
  }

  /** Ends a request in the middle: what the client has of the answer is not whole, and it can see that. */
  cut(exchange: Exchange, reason: CloseReason): void {
    if (exchange.isOver) return;
    this.#say(exchange.connection, exchange, reason, true);
    this.finish(exchange, true);
    exchange.connection.socket.destroy();
  }

  /** The request is over, however: its places are free, it is counted and logged. */
  finish(exchange: Exchange, isRefused = false): void {
    if (exchange.isOver) return;
    exchange.isOver = true;
    const { connection, row, route, request } = exchange;
    const slot = route?.slot ?? 0;
    const backend = row < 0 ? undefined : this.#backendOf(exchange);
    this.#countBytes(connection, exchange);
    exchange.upstream?.destroy();
    exchange.spliced?.destroy();
    if (exchange.status === 0) exchange.status = CLIENT_LEFT;
    this.shared.requests.add(slot, exchange.status);
    if (row >= 0) {
      leavePlace(this.rows, this.shared, row);
      this.rows.clear(row);
      this.#freeRows.push(row);
    }
    if (this.settings.log === 'all' || (this.settings.log === 'refused' && isRefused)) {
      this.#log.write({
        address: connection.address,
        port: connection.port,
        host: exchange.judged?.host,
        slot,
        backend,
        method: request.method ?? '',
        status: exchange.status,
        ms: now() - exchange.startedAt,
      });
    }
    if (connection.current === exchange) connection.current = undefined;
  }

  /** The whole answer is on its way. Before anything else that node:http does then, such as to close. */
  #answered(exchange: Exchange): void {
    if (exchange.isOver) return;
    this.#say(exchange.connection, exchange, 'done');
    this.finish(exchange);
  }

  /** The answer is out, or the client is gone. */
  #left(exchange: Exchange): void {
    const { connection, request } = exchange;
    this.finish(exchange);
    // An answer that came before the request was whole: what is left of it is nobody's.
    if (!request.complete || this.#draining) {
      connection.socket.destroySoon();
      return;
    }
    const next = connection.waiting.shift();
    if (next !== undefined && !connection.socket.destroyed) this.#serve(connection, next);
  }

  #closed(socket: Socket): void {
    const connection = this.#connections.get(socket);
    this.#connections.delete(socket);
    if (connection?.current !== undefined) this.finish(connection.current);
  }

  #clientError(error: NodeJS.ErrnoException, socket: Socket): void {
    const isGone = error.code === 'ECONNRESET' || error.code === 'EPIPE' || !socket.writable;
    if (isGone) socket.destroy();
    else
      this.#refuseSocket(socket, error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'hello-timeout' : 'bad-request');
  }

  /** What the client says cannot be read on, in the middle of a request or between two. */
  #refuseSocket(socket: Socket, reason: CloseReason): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) {
      socket.destroy();
      return;
    }
    if (connection.current !== undefined) return this.refuse(connection.current, reason);
    const { status, word } = wordFor(reason);
    this.#say(connection, undefined, reason);
    this.shared.requests.add(0, status);
    socket.end(word, () => socket.destroy());
    this.#countBytes(connection, undefined);
  }

  /** Tells the front where the connection stands; without a reason, that a request is in progress. */
  #say(
    connection: HttpConnection,
    exchange: Exchange | undefined,
    reason: CloseReason | undefined,
    isBroken = false,
  ): void {
    const { worker, handle, generation } = connection.told;
    this.#verdicts[worker]?.say(handle, generation, {
      slot: exchange?.route?.slot ?? 0,
      backendSlot: exchange === undefined || exchange.row < 0 ? 0 : this.rows.backendSlot[exchange.row],
      dialMs: exchange?.dialMs ?? -1,
      reason: reason === undefined ? -1 : reasonIndex[reason],
      isBroken,
    });
  }

  /** A backend is reached: the front's record shows it from now on. */
  reached(exchange: Exchange): void {
    this.#say(exchange.connection, exchange, undefined);
  }

  #backendOf({ row, route }: Exchange): string | undefined {
    return route?.backends.find(({ slot }) => slot === this.rows.backendSlot[row])?.text;
  }

  #countBytes(connection: HttpConnection, exchange: Exchange | undefined): void {
    const slot = exchange?.route?.slot ?? 0;
    const { bytesRead, bytesWritten } = connection.socket;
    this.shared.counters.add(slot, BYTES_IN_AT, bytesRead - connection.countedIn);
    this.shared.counters.add(slot, BYTES_OUT_AT, bytesWritten - connection.countedOut);
    connection.countedIn = bytesRead;
    connection.countedOut = bytesWritten;
  }

  /** Long answers are counted as they go; clients that the front has let go of are let go of here. */
  #lookAround(): void {
    for (const connection of this.#connections.values()) {
      const { worker, handle, generation } = connection.told;
      if (this.#verdicts[worker]?.isCurrent(handle, generation) !== true) connection.socket.destroy();
      else if (connection.current !== undefined) this.#countBytes(connection, connection.current);
    }
    this.h2.lookAround();
    this.#log.flush();
  }

  #takeRow(): number | undefined {
    const row = this.#freeRows.pop() ?? this.#usedRows++;
    if (row >= this.rows.capacity) return undefined;
    this.rows.clear(row);
    this.rows.state[row] = REQUEST;
    return row;
  }
}

/** RFC 9110 7.8. Not to h2c: that would carry requests past us. A request with a body is answered as it is. */
function wantsUpgrade({ headers }: IncomingMessage): boolean {
  const upgrade = headers.upgrade?.toLowerCase() ?? '';
  return (
    upgrade !== '' &&
    !/\bh2c?\b|\btls\b|\bhttp\b/.test(upgrade) &&
    headers['transfer-encoding'] === undefined &&
    Number(headers['content-length'] ?? 0) === 0
  );
}

function redirect(exchange: Exchange): void {
  const { judged, response } = exchange;
  if (judged === undefined) return;
  const authority = judged.hostHeader.replace(/:80$/, '');
  const target = judged.target === '*' ? '/' : judged.target;
  exchange.status = 308;
  response.writeHead(308, { Location: `https://${authority}${target}`, 'Content-Length': 0 }).end();
}

function wordFor(reason: CloseReason): { readonly word: Buffer; readonly status: number } {
  let found = httpWord.get(reason);
  if (found === undefined) {
    const bytes = refusalWord(reason, HTTP);
    const word = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    found = { word, status: Number(word.toString('latin1', 9, 12)) };
    httpWord.set(reason, found);
  }
  return found;
}

/** The clock that all threads share. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}
