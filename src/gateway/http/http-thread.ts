// Serves cleartext HTTP, one instance per HTTP thread. Workers hand connections off on a unix socket; here each request
// is judged, routed by its Host, admitted, and passed on to a backend. How a connection stands, and why it ended, goes
// back to its worker as a verdict (verdicts.ts).

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';
import { formatIpPort } from '../../wire/ip-address.ts';
import type { CloseReason } from '../close-reason.ts';
import type { FaultLog } from '../fault-log.ts';
import { guard } from '../guard.ts';
import { descriptorOf } from '../io/net-reactor.ts';
import type { HandOff } from '../shared/hand-off.ts';
import { listenOnPath } from '../shared/listen-on-path.ts';
import { CLIENT, REQUEST, type Rows } from '../shared/rows.ts';
import { BYTES_IN_AT, BYTES_OUT_AT } from '../shared/shared-memory.ts';
import type { ThreadControl } from '../shared/thread-control.ts';
import { noVerdict, type Verdict, type Verdicts } from '../shared/verdicts.ts';
import { isAllowed, takeLimits } from '../stages/admit.ts';
import type { Settings } from '../stages/data-path.ts';
import { type DialFailure, dialFailureIndex, reasonOfFailure } from '../stages/dial-failure.ts';
import { reasonIndex, releaseLimits } from '../stages/record-end.ts';
import { routeHttp } from '../stages/route.ts';
import { servedOverTls } from '../stages/served-over-tls.ts';
import { SweepTimer } from '../sweep-timer.ts';
import type { TableListener } from '../table/listener-table.ts';
import type { Table } from '../table/table.ts';
import { acceptHandOff } from './accept-hand-off.ts';
import { BackendAgent } from './backend-agent.ts';
import { checkForTimeouts } from './check-for-timeouts.ts';
import { type Exchange, type HttpConnection, hasBody, type Incoming } from './exchange.ts';
import { expiredTimeout } from './expired-timeout.ts';
import { forward } from './forward.ts';
import { H2Connect } from './h2-connect.ts';
import { judgeRequest } from './judge-request.ts';
import { KeptConnections } from './kept-connections.ts';
import { refusalFor, sendRefusal, stopReading } from './refusal-answer.ts';
import type { RequestLog, RequestRecord } from './request-log.ts';
import { createRequestServer, isUpgradeRequest } from './request-server.ts';
import { type HttpShared, now, type RequestThread } from './request-thread.ts';

/** How often node:http checks for late heads, and we for connections that their worker has ended. */
const SWEEP_MS = 250;
/** An idle connection is kept this long for another request, or `timeouts.idle` where that is shorter. */
const KEEP_ALIVE_MS = 75_000;
/** Pipelined requests that may wait for their turn. Debian's apt sends 10. */
const MAX_PIPELINED = 100;
/** The client closed before it got a response: nginx's status for it. */
const CLIENT_CLOSED = 499;
/** In counters and log, for a request that met a fault of ours; its client sees a reset. */
const FAULT_STATUS = 500;

export interface HttpThreadOptions {
  readonly rows: Rows;
  readonly shared: HttpShared;
  readonly table: Table;
  /** Indexed by worker. */
  readonly verdicts: readonly Verdicts[];
  readonly control: ThreadControl;
  readonly settings: Settings;
  readonly log: RequestLog;
  readonly onDialFailed: (backendSlot: number) => void;
  readonly faults: FaultLog;
}

export class HttpThread implements RequestThread {
  readonly rows: Rows;
  readonly shared: HttpShared;
  readonly table: Table;
  readonly listeners: TableListener[] = [];
  settings: Settings;
  readonly kept: KeptConnections;
  readonly single = new BackendAgent();
  readonly onDialFailed: (backendSlot: number) => void;
  /** HTTP/2 connections: CONNECT only, which goes back to a worker. */
  readonly h2: H2Connect;
  readonly #verdicts: readonly Verdicts[];
  readonly #control: ThreadControl;
  readonly #log: RequestLog;
  readonly #faults: FaultLog;
  readonly #connections = new Map<Socket, HttpConnection>();
  readonly #freeRows: number[] = [];
  #usedRows = 0;
  readonly #http: Server;
  #server: NetServer | undefined;
  readonly #sweeps: SweepTimer;
  #draining = false;

  constructor(options: HttpThreadOptions) {
    this.rows = options.rows;
    this.shared = options.shared;
    this.table = options.table;
    this.settings = options.settings;
    this.onDialFailed = options.onDialFailed;
    this.#verdicts = options.verdicts;
    this.#control = options.control;
    this.#faults = options.faults;
    this.kept = new KeptConnections(error => this.#faults.write(error));
    this.h2 = new H2Connect(options.verdicts, options.settings, options.faults);
    this.#log = options.log;
    this.#http = createRequestServer({
      arrived: (request, response, upgradeHead) => this.#arrived(request, response, upgradeHead),
      mayUpgrade: socket => this.#mayUpgrade(socket),
      connect: socket => this.#connect(socket),
      error: (error, socket) => this.#onClientError(error, socket),
      fault: (error, socket) => this.#faultAt(socket, error),
    });
    this.#sweeps = new SweepTimer(
      SWEEP_MS,
      () => this.#sweep(),
      isRunning => checkForTimeouts(this.#http, isRunning ? SWEEP_MS : undefined),
    );
    this.configure(options.settings);
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  /** Listens on that path from now on. Connections from the path before go on. */
  async listen(path: string): Promise<void> {
    const server = await listenOnPath(path, socket => this.#accept(socket));
    this.#server?.close();
    this.#server = server;
  }

  configure(settings: Settings): void {
    this.settings = settings;
    this.h2.settings = settings;
    this.#http.headersTimeout = settings.helloMs;
    this.#http.keepAliveTimeout = Math.min(KEEP_ALIVE_MS, settings.idleMs ?? KEEP_ALIVE_MS);
  }

  /**
   * After a table change: ends connections whose request (the one in progress, else the last) was for a cluster or
   * route that is gone, or that no longer allows the client.
   */
  revoke(): void {
    this.#forEach(connection => {
      const { current, last, address } = connection;
      if (last === undefined || last.slot === 0 || connection.isClosing) return;
      const route = this.table.route(last.slot);
      if (route !== undefined && isAllowed(route, address, 0)) return;
      if (current !== undefined) this.cut(current, 'revoked');
      else this.#close(connection, 'revoked', true);
    });
  }

  /** Requests in progress run to their end, with `Connection: close`; idle connections end now. */
  drain(): void {
    this.#draining = true;
    this.h2.drain();
    this.#forEach(({ current }) => {
      if (current !== undefined) current.response.shouldKeepAlive = false;
    });
    this.#http.closeIdleConnections();
  }

  /** Closes everything, so that the thread can end. */
  stop(): void {
    this.#sweeps[Symbol.dispose]();
    this.#server?.close();
    this.h2.stop();
    this.#http.close();
    this.#forEach(({ current, socket, link }) => {
      // Not when the socket has closed: by then the thread is gone, and the log line would be lost.
      if (current !== undefined) this.endRequest(current);
      socket.destroy();
      link?.destroy();
    });
    this.kept.destroy();
    this.single.destroy();
    this.#log.end();
  }

  #accept(server: Socket): void {
    // The remaining descriptors are reserved: see open-files.ts.
    if (descriptorOf(server) >= this.settings.clientFiles) {
      server.destroy();
      return;
    }
    acceptHandOff(server, {
      control: this.#control,
      http: connection => {
        const { socket, link } = connection;
        this.#report(connection, noVerdict);
        this.#connections.set(socket, connection);
        this.#sweeps.start();
        socket.once(
          'close',
          guard(connection, (hadError: boolean) => this.#connectionClosed(connection, hadError)),
        );
        if (link !== undefined)
          socket.once(
            'finish',
            guard(connection, () => this.#finSent(connection)),
          );
        this.#http.emit('connection', socket);
      },
      fault: (connection, error) => this.#fault(connection, error),
      handOffFault: (error, handOff) => this.#handOffFault(error, handOff),
      borrow: ({ worker, handle, generation }) => this.#verdicts[worker]?.borrow(handle, generation),
      h2: (connection, first) => {
        this.#sweeps.start();
        this.h2.serve(connection, first);
      },
    });
  }

  #arrived(request: IncomingMessage, response: ServerResponse, upgradeHead: Buffer | undefined): void {
    const connection = this.#connections.get(request.socket);
    // Requests behind a refusal, or behind the last one, are ignored.
    if (connection === undefined || connection.isLast || isOver(connection)) return;
    const incoming = { request, response, upgradeHead };
    if (!response.shouldKeepAlive) connection.isLast = true;
    // node:http loses the bytes behind an upgrade request that is not granted: so such a request is the last.
    if (isUpgradeRequest(request)) {
      response.shouldKeepAlive = false;
      connection.isLast = true;
      if (upgradeHead === undefined && !hasBody(request)) stopReading(request.socket);
    }
    const { current, waiting } = connection;
    if (current === undefined && waiting.length === 0) this.#serve(connection, incoming);
    else if (waiting.push(incoming) > MAX_PIPELINED) this.#refuseNow(connection, 'over-limit');
  }

  /**
   * Only on a connection that waits for its next request: while a response or a refusal is being written, node:http
   * still owns the socket (ERR_HTTP_SOCKET_ASSIGNED).
   */
  #mayUpgrade(socket: Socket): boolean {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.isLast || isOver(connection)) return false;
    return connection.current === undefined && connection.waiting.length === 0;
  }

  /** CONNECT detaches the socket from node:http, which no longer passes `drain` on to the response in progress. */
  #connect(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection !== undefined)
      socket.on(
        'drain',
        guard(connection, () => connection.current?.response.emit('drain')),
      );
    this.#refuseUnreadable(socket, 'bad-request');
  }

  #serve(connection: HttpConnection, incoming: Incoming): void {
    const { request, response, upgradeHead } = incoming;
    const exchange: Exchange = {
      request,
      response,
      upgradeHead,
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
      kept: undefined,
      spliced: undefined,
      status: 0,
      isOver: false,
    };
    connection.current = exchange;
    response.sendDate = false;
    if (this.#draining) response.shouldKeepAlive = false;
    response.prependListener(
      'finish',
      guard(connection, () => this.#responseWritten(exchange)),
    );
    response.once(
      'close',
      guard(connection, () => this.#responseClosed(exchange)),
    );
    response.on(
      'error',
      guard(connection, () => this.cut(exchange, reasonOfLoss(connection))),
    );
    const refusal = this.#begin(exchange);
    if (refusal !== undefined) this.refuse(exchange, refusal);
    else if (exchange.route?.redirect === true) redirect(exchange);
    else forward(this, exchange);
  }

  /** Judges, routes and admits. Returns the reason if the request is refused. */
  #begin(exchange: Exchange): CloseReason | undefined {
    const { connection, request } = exchange;
    const judged = judgeRequest(request);
    if (judged === undefined) return 'bad-request';
    exchange.judged = judged;
    const listener = this.listeners[connection.handOff.listener];
    // The listener was closed before this thread started.
    if (listener === undefined) return 'unknown-host';
    const route = routeHttp(this.table, listener, judged.host);
    if (typeof route === 'string') return route;
    const row = this.#takeRow();
    if (row === undefined) return 'over-limit';
    exchange.row = row;
    exchange.route = route;
    this.rows.addresses.set(connection.address, this.rows.addressAt(row, CLIENT));
    this.rows.setPort(row, CLIENT, connection.port);
    this.rows.host[row] = judged.host;
    const refusal = takeLimits(this.rows, this.shared, row, route, exchange.startedAt);
    this.#reportExchange(connection, exchange, undefined);
    return refusal;
  }

  giveUp(exchange: Exchange, failure: DialFailure): void {
    this.refuse(exchange, reasonOfFailure(failure), dialFailureIndex[failure]);
  }

  refuse(exchange: Exchange, reason: CloseReason, failure = 0): void {
    if (exchange.isOver) return;
    const { status, refusal } = refusalFor(reason, this.#explain(exchange, reason));
    const { connection, request, response } = exchange;
    const started = response.headersSent;
    if (!started) exchange.status = status;
    this.#reportExchange(connection, exchange, reason, started, failure);
    connection.isClosing = true;
    this.endRequest(exchange, true);
    const { socket } = connection;
    if (started || socket.destroyed) {
      socket.destroy();
      return;
    }
    const end = request.method === 'HEAD' ? refusal.indexOf('\r\n\r\n') + 4 : refusal.length;
    sendRefusal(socket, refusal.subarray(0, end));
    this.#countBytes(connection, exchange);
  }

  /** The text of the refusal, where it differs from the usual one. */
  #explain({ connection, judged }: Exchange, reason: CloseReason): string | undefined {
    const listener = this.listeners[connection.handOff.listener];
    if (reason !== 'unknown-host' || judged === undefined || listener === undefined) return undefined;
    return servedOverTls(this.table, listener, judged.host, judged.hostHeader);
  }

  cut(exchange: Exchange, reason: CloseReason): void {
    if (exchange.isOver) return;
    this.#reportExchange(exchange.connection, exchange, reason, true);
    exchange.connection.isClosing = true;
    this.endRequest(exchange, true);
    exchange.connection.socket.destroy();
  }

  endRequest(exchange: Exchange, isRefused = false): void {
    if (exchange.isOver) return;
    exchange.isOver = true;
    const { connection, row, route, request } = exchange;
    const slot = route?.slot ?? 0;
    const backend = row < 0 ? undefined : this.#backendOf(exchange);
    try {
      this.#countBytes(connection, exchange);
      exchange.upstream?.destroy();
      exchange.kept?.destroy();
      exchange.spliced?.destroy();
      if (exchange.status === 0) exchange.status = CLIENT_CLOSED;
      this.shared.requests.add(slot, exchange.status);
    } finally {
      this.#releaseRow(exchange);
      if (connection.current === exchange) connection.current = undefined;
    }
    this.#logRequest(connection, isRefused, {
      host: exchange.judged?.host,
      slot,
      backend,
      method: request.method,
      status: exchange.status,
      ms: now() - exchange.startedAt,
    });
  }

  #releaseRow(exchange: Exchange): void {
    const { row } = exchange;
    if (row < 0) return;
    releaseLimits(this.rows, this.shared, row);
    exchange.row = -1;
    this.rows.clear(row);
    this.#freeRows.push(row);
  }

  /** The whole response has been written. Runs before node:http's own listeners, which may close the socket. */
  #responseWritten(exchange: Exchange): void {
    if (exchange.isOver) return;
    this.#reportExchange(exchange.connection, exchange, 'done');
    this.endRequest(exchange);
    // An upgrade that was not granted: node:http has detached the socket, and will not close it.
    if (exchange.upgradeHead !== undefined) exchange.connection.socket.destroySoon();
  }

  /** The response was sent, or the client has gone. */
  #responseClosed(exchange: Exchange): void {
    const { connection, request } = exchange;
    this.endRequest(exchange);
    // The response came before the request was complete: the rest of the request is ignored.
    if (!request.complete || this.#draining) {
      connection.isClosing = true;
      connection.socket.destroySoon();
    }
    if (isOver(connection)) return;
    const next = connection.waiting.shift();
    if (next !== undefined) this.#serve(connection, next);
    else if (connection.unreadable !== undefined) this.#refuseConnection(connection, connection.unreadable);
  }

  #connectionClosed(connection: HttpConnection, isReset: boolean): void {
    const { socket, current, link, last = noVerdict } = connection;
    this.#connections.delete(socket);
    if (current !== undefined) this.endRequest(current);
    this.#countBytes(connection, undefined);
    if (link === undefined) return;
    // The worker does not see how a lent socket closes.
    const isOpen = last.reason < 0 || last.reason === reasonIndex.done;
    const reason = isReset ? reasonOfLoss(connection) : 'done';
    if (isOpen) this.#report(connection, { ...last, reason: reasonIndex[reason] });
    link.destroy();
  }

  /** FIN was sent to a client that is served directly. The worker does the rest, unless an upgrade is half-closed. */
  #finSent(connection: HttpConnection): void {
    if (connection.last?.isEnding === true) return;
    this.#countBytes(connection, connection.current);
    connection.link?.end();
  }

  #onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET' || error.code === 'EPIPE') socket.destroy();
    // Bytes behind the last request are ignored. Closing now could lose its response.
    else if (error.code === 'HPE_CLOSED_CONNECTION' || !socket.writable) return;
    else this.#refuseUnreadable(socket, reasonFor(error));
  }

  /** The client's next bytes cannot be parsed. Complete requests before them are answered first. */
  #refuseUnreadable(socket: Socket, reason: CloseReason): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) {
      socket.destroy();
      return;
    }
    const { current, waiting, isLast } = connection;
    if (connection.isClosing || connection.unreadable !== undefined) return;
    const last = waiting.at(-1) ?? current;
    const isAnswered = last?.response.writableEnded === true;
    const isWhole = last === undefined || last.request.complete;
    // Ignored: bytes behind the last request, and the rest of a request that has its response.
    if (isWhole ? isLast : isAnswered) return;
    if (!isWhole) waiting.pop();
    if (last === undefined || (!isWhole && last === current)) return this.#refuseNow(connection, reason);
    connection.unreadable = reason;
    stopReading(socket);
  }

  #refuseNow(connection: HttpConnection, reason: CloseReason): void {
    if (connection.current !== undefined) this.refuse(connection.current, reason);
    else this.#refuseConnection(connection, reason);
  }

  /** Unreadable bytes count as a request with a status but no method or host; half a head does not. */
  #refuseConnection(connection: HttpConnection, reason: CloseReason): void {
    connection.isClosing = true;
    const { status, refusal } = refusalFor(reason);
    if (status === 0) {
      this.#report(connection, { ...(connection.last ?? noVerdict), reason: reasonIndex[reason] });
    } else {
      this.#reportExchange(connection, undefined, reason);
      this.shared.requests.add(0, status);
      this.#logRequest(connection, true, {
        host: undefined,
        slot: 0,
        backend: undefined,
        method: undefined,
        status,
        // Its start is known only when it timed out.
        ms: reason === 'hello-timeout' ? this.settings.helloMs : 0,
      });
    }
    sendRefusal(connection.socket, refusal);
    this.#countBytes(connection, undefined);
  }

  /** Reports the connection's state to its worker; without a reason, a request is in progress. */
  #reportExchange(
    connection: HttpConnection,
    exchange: Exchange | undefined,
    reason: CloseReason | undefined,
    isBroken = false,
    failure = 0,
  ): void {
    this.#report(connection, {
      slot: exchange?.route?.slot ?? 0,
      backendSlot: exchange === undefined || exchange.row < 0 ? 0 : this.rows.backendSlot[exchange.row],
      dialMs: exchange?.dialMs ?? -1,
      reason: reason === undefined ? -1 : reasonIndex[reason],
      isBroken,
      isEnding: false,
      failure,
    });
  }

  #report(connection: HttpConnection, verdict: Verdict): void {
    const { worker, handle, generation } = connection.handOff;
    connection.last = verdict;
    this.#verdicts[worker]?.say(handle, generation, verdict);
  }

  reportBackendFin({ connection }: Exchange): void {
    if (connection.last !== undefined) this.#report(connection, { ...connection.last, isEnding: true });
  }

  reportBackend(exchange: Exchange): void {
    this.#reportExchange(exchange.connection, exchange, undefined);
  }

  /** Writes the log line, unless `log.connections` leaves it out. */
  #logRequest(
    { address, port }: HttpConnection,
    isRefused: boolean,
    line: Omit<RequestRecord, 'address' | 'port'>,
  ): void {
    const { log } = this.settings;
    if (log === 'all' || (log === 'refused' && isRefused)) this.#log.write({ address, port, ...line });
  }

  #backendOf({ row, route }: Exchange): string | undefined {
    return route?.backends.find(({ slot }) => slot === this.rows.backendSlot[row])?.text;
  }

  #countBytes(connection: HttpConnection, exchange: Exchange | undefined): void {
    const slot = exchange?.route?.slot ?? 0;
    const { bytesRead, bytesWritten } = connection.socket;
    if (connection.link !== undefined) {
      const { worker, handle, generation } = connection.handOff;
      this.#verdicts[worker]?.count(handle, generation, bytesRead, bytesWritten);
    }
    this.shared.counters.add(slot, BYTES_IN_AT, bytesRead - connection.countedIn);
    connection.countedIn = bytesRead;
    // Node subtracts unsent bytes when a socket closes, but counters only grow.
    if (bytesWritten <= connection.countedOut) return;
    this.shared.counters.add(slot, BYTES_OUT_AT, bytesWritten - connection.countedOut);
    connection.countedOut = bytesWritten;
  }

  /**
   * Counts the bytes of long responses, and ends connections that timed out or that their worker has ended. Returns
   * whether any connection is left, to a client or a backend.
   */
  #sweep(): boolean {
    const time = now();
    this.#forEach(connection => {
      const { worker, handle, generation } = connection.handOff;
      if (this.#verdicts[worker]?.isCurrent(handle, generation) !== true) {
        connection.socket.destroy();
        return;
      }
      if (connection.current !== undefined) {
        this.#countBytes(connection, connection.current);
        if (this.#isStalled(connection, connection.current, time)) this.#endStalled(connection.current);
      }
      const reason =
        connection.link === undefined ? undefined : expiredTimeout(connection, this.settings, time);
      if (reason !== undefined) this.#close(connection, reason, false);
    });
    this.h2.sweep();
    this.kept.sweep();
    this.#log.flush();
    return this.#connections.size + this.h2.size + this.kept.size > 0;
  }

  /** An exception ends only the connection that it was thrown for. */
  #forEach(each: (connection: HttpConnection) => void): void {
    for (const connection of this.#connections.values()) {
      try {
        each(connection);
      } catch (error) {
        this.#fault(connection, error);
      }
    }
  }

  /** Our own code threw on behalf of that connection: it ends with a reset, even if a step of the end throws too. */
  #fault(connection: HttpConnection, error: unknown): void {
    const { current, socket, address, port } = connection;
    this.#faults.write(error, { client: formatIpPort(address, 0, port) });
    connection.isClosing = true;
    const verdict = { ...(connection.last ?? noVerdict), reason: reasonIndex.fault, isBroken: true };
    attempt(() => this.#report(connection, verdict));
    if (current !== undefined) {
      if (!current.response.headersSent) current.status = FAULT_STATUS;
      attempt(() => this.endRequest(current, true));
      attempt(() => this.#releaseRow(current));
    }
    socket.destroy();
    connection.link?.destroy();
  }

  /** A fault on a socket whose connection may not be known, or no longer. */
  #faultAt(socket: Socket, error: unknown): void {
    const connection = this.#connections.get(socket);
    if (connection !== undefined) return this.#fault(connection, error);
    this.#faults.write(error);
    socket.destroy();
  }

  #handOffFault(error: unknown, handOff: HandOff | undefined): void {
    this.#faults.write(error);
    if (handOff === undefined) return;
    const verdict = { ...noVerdict, reason: reasonIndex.fault, isBroken: true };
    attempt(() => this.#verdicts[handOff.worker]?.say(handOff.handle, handOff.generation, verdict));
  }

  /** Bytes wait to be taken, or the rest of the request does not come. A backend may take its time to respond. */
  #isStalled({ socket, meter }: HttpConnection, exchange: Exchange, time: number): boolean {
    const { request, upstream, spliced } = exchange;
    const backend = spliced ?? upstream?.socket ?? undefined;
    return meter.isStalled([socket, backend], !request.complete, this.settings.stalledMs, time);
  }

  /** A client that stopped in the middle of its request gets a refusal; others are cut off. */
  #endStalled(exchange: Exchange): void {
    const { request, response, upstream } = exchange;
    const isRequestStalled =
      !request.complete && !response.headersSent && (upstream?.writableLength ?? 0) === 0;
    if (isRequestStalled) this.refuse(exchange, 'idle-timeout');
    else this.cut(exchange, 'idle-timeout');
  }

  /** Closes without a response. */
  #close(connection: HttpConnection, reason: CloseReason, isBroken: boolean): void {
    connection.isClosing = true;
    this.#report(connection, { ...(connection.last ?? noVerdict), reason: reasonIndex[reason], isBroken });
    connection.socket.destroy();
  }

  #takeRow(): number | undefined {
    const row = this.#freeRows.pop() ?? this.#usedRows++;
    if (row >= this.rows.capacity) return undefined;
    this.rows.clear(row);
    this.rows.state[row] = REQUEST;
    return row;
  }
}

/** The fault that led here is already in the log. */
function attempt(step: () => void): void {
  try {
    step();
  } catch {
    // Nothing more can be done.
  }
}

/** The reason for bytes that node:http could not parse. */
function reasonFor({ code }: NodeJS.ErrnoException): CloseReason {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'hello-timeout';
  // FIN in the middle of a request.
  return code === 'HPE_INVALID_EOF_STATE' ? 'client-gone' : 'bad-request';
}

/** The socket failed: the client reset it, or the kernel gave up waiting for the client to acknowledge bytes. */
function reasonOfLoss({ socket }: HttpConnection): CloseReason {
  const error: NodeJS.ErrnoException | null = socket.errored;
  return error?.code === 'ETIMEDOUT' ? 'idle-timeout' : 'client-reset';
}

/** Accepts no further request: it was refused, or its last bytes are being written. */
function isOver({ isClosing, socket }: HttpConnection): boolean {
  return isClosing || !socket.writable;
}

function redirect(exchange: Exchange): void {
  const { judged, response } = exchange;
  if (judged === undefined) return;
  const authority = judged.hostHeader.replace(/:80$/, '');
  const target = judged.target === '*' ? '/' : judged.target;
  exchange.status = 308;
  response.writeHead(308, { Location: `https://${authority}${target}`, 'Content-Length': 0 }).end();
}

/** The clock that all threads share. */
