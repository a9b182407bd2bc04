// The HTTP part: a gateway's cleartext HTTP, behind the layer-4 front. The front hands connections over on a unix
// socket; here each request is judged, routed by its Host, admitted, and passed on to a backend. One HTTP thread has
// one of these. What a connection comes to goes back to the front as a verdict (verdicts.ts).

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
import { BYTES_IN_AT, BYTES_OUT_AT, type RequestCounters } from '../shared/shared-memory.ts';
import type { Verdict, Verdicts } from '../shared/verdicts.ts';
import { isAllowed, type LimitCounters, takeLimits } from '../stages/admit.ts';
import type { Settings } from '../stages/data-path.ts';
import { type DialFailure, dialFailureIndex, reasonOfFailure } from '../stages/dial-failure.ts';
import { reasonIndex, releaseLimits } from '../stages/record-end.ts';
import { routeHttp } from '../stages/route.ts';
import { servedOverTls } from '../stages/served-over-tls.ts';
import type { TableListener } from '../table/listener-table.ts';
import type { Table } from '../table/table.ts';
import { acceptHandOff } from './accept-hand-off.ts';
import { BackendAgent } from './backend-agent.ts';
import type { Exchange, HttpConnection, Incoming } from './exchange.ts';
import { expiredTimeout } from './expired-timeout.ts';
import { forward, hasBody } from './forward.ts';
import { H2Connect } from './h2-connect.ts';
import { judgeRequest } from './judge-request.ts';
import { KeptConnections } from './kept-connections.ts';
import { readNoMore, refusalFor, sayLast } from './refusal-answer.ts';
import type { RequestLog, RequestRecord } from './request-log.ts';
import { createRequestServer, isWish } from './request-server.ts';

/** How often node:http looks for heads that take too long, and we for clients that the front has let go of. */
const LOOK_MS = 250;
/** An idle connection is kept this long for a further request, or `timeouts.idle` where that is shorter. */
const KEEP_ALIVE_MS = 75_000;
/** Requests that a client may send ahead of an answer. Debian's apt sends 10. */
const MAX_AHEAD = 100;
/** The client left before it was answered: nginx's number for it. */
const CLIENT_LEFT = 499;
/** In counters and log, of a request that met a fault of ours; its client sees a reset. */
const FAULT_STATUS = 500;

/** Of a connection that has asked for nothing yet. */
const nowhere: Verdict = {
  slot: 0,
  backendSlot: 0,
  dialMs: -1,
  reason: -1,
  isBroken: false,
  isEnding: false,
};

/** Of this thread's clock; to ask for it costs as much as the time itself. */
const ORIGIN = performance.timeOrigin;

export interface HttpShared extends LimitCounters {
  readonly requests: RequestCounters;
}

export interface HttpThreadOptions {
  readonly rows: Rows;
  readonly shared: HttpShared;
  readonly table: Table;
  /** By worker. */
  readonly verdicts: readonly Verdicts[];
  readonly settings: Settings;
  readonly log: RequestLog;
  readonly onDialFailed: (backendSlot: number) => void;
  readonly faults: FaultLog;
}

export class HttpThread {
  readonly rows: Rows;
  readonly shared: HttpShared;
  readonly table: Table;
  readonly listeners: TableListener[] = [];
  settings: Settings;
  /** Connections for requests that may be sent again, and for those that have one of their own. */
  readonly kept: KeptConnections;
  readonly single = new BackendAgent();
  readonly onDialFailed: (backendSlot: number) => void;
  /** Connections that speak HTTP/2: CONNECT alone, which goes back to the front. */
  readonly h2: H2Connect;
  readonly #verdicts: readonly Verdicts[];
  readonly #log: RequestLog;
  readonly #faults: FaultLog;
  readonly #connections = new Map<Socket, HttpConnection>();
  readonly #freeRows: number[] = [];
  #usedRows = 0;
  readonly #http: Server;
  #server: NetServer | undefined;
  readonly #look: NodeJS.Timeout;
  #draining = false;

  constructor(options: HttpThreadOptions) {
    this.rows = options.rows;
    this.shared = options.shared;
    this.table = options.table;
    this.settings = options.settings;
    this.onDialFailed = options.onDialFailed;
    this.#verdicts = options.verdicts;
    this.#faults = options.faults;
    this.kept = new KeptConnections(error => this.#faults.write(error));
    this.h2 = new H2Connect(options.verdicts, options.settings, options.faults);
    this.#log = options.log;
    this.#http = createRequestServer(LOOK_MS, {
      arrived: (request, response, upgradeHead) => this.#arrived(request, response, upgradeHead),
      mayUpgrade: socket => this.#mayUpgrade(socket),
      connect: socket => this.#connect(socket),
      error: (error, socket) => this.#clientError(error, socket),
      fault: (error, socket) => this.#faultAt(socket, error),
    });
    this.#look = setInterval(() => this.#lookAround(), LOOK_MS);
    this.configure(options.settings);
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  /** From now on there. What came by the socket before goes on. */
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
   * After a table change: connections end whose request, the one in progress or else the last, was of a cluster or route
   * that is gone, or whose client is no longer allowed there.
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

  /** What is in progress may finish, with `Connection: close`; what is idle ends now. */
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
    clearInterval(this.#look);
    this.#server?.close();
    this.h2.stop();
    this.#http.close();
    this.#forEach(({ current, socket, link }) => {
      // Not when the socket has closed: by then the thread is gone, and with it the line.
      if (current !== undefined) this.finish(current);
      socket.destroy();
      link?.destroy();
    });
    this.kept.destroy();
    this.single.destroy();
    this.#log.end();
  }

  #accept(server: Socket): void {
    // Those that are left are spare: see open-files.ts.
    if (descriptorOf(server) >= this.settings.clientFiles) {
      server.destroy();
      return;
    }
    acceptHandOff(server, {
      http: connection => {
        const { socket, link } = connection;
        this.#tell(connection, nowhere);
        this.#connections.set(socket, connection);
        socket.once(
          'close',
          guard(connection, (hadError: boolean) => this.#closed(connection, hadError)),
        );
        if (link !== undefined)
          socket.once(
            'finish',
            guard(connection, () => this.#ended(connection)),
          );
        this.#http.emit('connection', socket);
      },
      fault: (connection, error) => this.#fault(connection, error),
      handOffFault: (error, handOff) => this.#handOffFault(error, handOff),
      borrow: ({ worker, handle, generation }) => this.#verdicts[worker]?.borrow(handle, generation),
      h2: (connection, first) => this.h2.serve(connection, first),
    });
  }

  #arrived(request: IncomingMessage, response: ServerResponse, upgradeHead: Buffer | undefined): void {
    const connection = this.#connections.get(request.socket);
    // What stands behind a refusal, or behind the last request that the client announced, is nobody's.
    if (connection === undefined || connection.isLast || isOver(connection)) return;
    const incoming = { request, response, upgradeHead };
    if (!response.shouldKeepAlive) connection.isLast = true;
    // node:http loses the bytes behind a wish to switch that is not heard: such a request is the last.
    if (isWish(request)) {
      response.shouldKeepAlive = false;
      connection.isLast = true;
      if (upgradeHead === undefined && !hasBody(request)) readNoMore(request.socket);
    }
    const { current, waiting } = connection;
    if (current === undefined && waiting.length === 0) this.#serve(connection, incoming);
    else if (waiting.push(incoming) > MAX_AHEAD) this.#refuseNow(connection, 'over-limit');
  }

  /**
   * Only on a connection that waits for its next request: node:http still owns the socket of one that is being answered,
   * be it with a refusal (ERR_HTTP_SOCKET_ASSIGNED).
   */
  #mayUpgrade(socket: Socket): boolean {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.isLast || isOver(connection)) return false;
    return connection.current === undefined && connection.waiting.length === 0;
  }

  /** node:http has let go of the socket, and no longer tells the answer in progress that it may go on. */
  #connect(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection !== undefined)
      socket.on(
        'drain',
        guard(connection, () => connection.current?.response.emit('drain')),
      );
    this.#refuseSocket(socket, 'bad-request');
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
      guard(connection, () => this.#answered(exchange)),
    );
    response.once(
      'close',
      guard(connection, () => this.#left(exchange)),
    );
    response.on(
      'error',
      guard(connection, () => this.cut(exchange, lostFor(connection))),
    );
    const refusal = this.#begin(exchange);
    if (refusal !== undefined) this.refuse(exchange, refusal);
    else if (exchange.route?.redirect === true) redirect(exchange);
    else forward(this, exchange);
  }

  /** Judges, routes and admits. Answers the reason for a refusal. */
  #begin(exchange: Exchange): CloseReason | undefined {
    const { connection, request } = exchange;
    const judged = judgeRequest(request);
    if (judged === undefined) return 'bad-request';
    exchange.judged = judged;
    const listener = this.listeners[connection.handOff.listener];
    // A listener that was closed before this thread started.
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
    this.#say(connection, exchange, undefined);
    return refusal;
  }

  /** No backend could be reached. */
  giveUp(exchange: Exchange, failure: DialFailure): void {
    this.refuse(exchange, reasonOfFailure(failure), dialFailureIndex[failure]);
  }

  /** Answers with the reason's status and closes: a refusal is the connection's end. */
  refuse(exchange: Exchange, reason: CloseReason, failure = 0): void {
    if (exchange.isOver) return;
    const { status, refusal } = refusalFor(reason, this.#explain(exchange, reason));
    const { connection, request, response } = exchange;
    const started = response.headersSent;
    if (!started) exchange.status = status;
    this.#say(connection, exchange, reason, started, failure);
    connection.isClosing = true;
    this.finish(exchange, true);
    const { socket } = connection;
    if (started || socket.destroyed) {
      socket.destroy();
      return;
    }
    const end = request.method === 'HEAD' ? refusal.indexOf('\r\n\r\n') + 4 : refusal.length;
    sayLast(socket, refusal.subarray(0, end));
    this.#countBytes(connection, exchange);
  }

  /** What to say of that refusal, where there is more to say than usual. */
  #explain({ connection, judged }: Exchange, reason: CloseReason): string | undefined {
    const listener = this.listeners[connection.handOff.listener];
    if (reason !== 'unknown-host' || judged === undefined || listener === undefined) return undefined;
    return servedOverTls(this.table, listener, judged.host, judged.hostHeader);
  }

  /** Ends a request in the middle: what the client has of the answer is not whole, and it can see that. */
  cut(exchange: Exchange, reason: CloseReason): void {
    if (exchange.isOver) return;
    this.#say(exchange.connection, exchange, reason, true);
    exchange.connection.isClosing = true;
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
    try {
      this.#countBytes(connection, exchange);
      exchange.upstream?.destroy();
      exchange.kept?.destroy();
      exchange.spliced?.destroy();
      if (exchange.status === 0) exchange.status = CLIENT_LEFT;
      this.shared.requests.add(slot, exchange.status);
    } finally {
      this.#leave(exchange);
      if (connection.current === exchange) connection.current = undefined;
    }
    this.#write(connection, isRefused, {
      host: exchange.judged?.host,
      slot,
      backend,
      method: request.method,
      status: exchange.status,
      ms: now() - exchange.startedAt,
    });
  }

  #leave(exchange: Exchange): void {
    const { row } = exchange;
    if (row < 0) return;
    releaseLimits(this.rows, this.shared, row);
    exchange.row = -1;
    this.rows.clear(row);
    this.#freeRows.push(row);
  }

  /** The whole answer is on its way. Before anything else that node:http does then, such as to close. */
  #answered(exchange: Exchange): void {
    if (exchange.isOver) return;
    this.#say(exchange.connection, exchange, 'done');
    this.finish(exchange);
    // A wish to switch that was answered otherwise: node:http has let go of the socket.
    if (exchange.upgradeHead !== undefined) exchange.connection.socket.destroySoon();
  }

  /** The answer is out, or the client is gone. */
  #left(exchange: Exchange): void {
    const { connection, request } = exchange;
    this.finish(exchange);
    // An answer that came before the request was whole: what is left of it is nobody's.
    if (!request.complete || this.#draining) {
      connection.isClosing = true;
      connection.socket.destroySoon();
    }
    if (isOver(connection)) return;
    const next = connection.waiting.shift();
    if (next !== undefined) this.#serve(connection, next);
    else if (connection.unreadable !== undefined) this.#refuseRest(connection, connection.unreadable);
  }

  #closed(connection: HttpConnection, isReset: boolean): void {
    const { socket, current, link, last = nowhere } = connection;
    this.#connections.delete(socket);
    if (current !== undefined) this.finish(current);
    this.#countBytes(connection, undefined);
    if (link === undefined) return;
    // What the front would have seen by itself.
    const isOpen = last.reason < 0 || last.reason === reasonIndex.done;
    const reason = isReset ? lostFor(connection) : 'done';
    if (isOpen) this.#tell(connection, { ...last, reason: reasonIndex[reason] });
    link.destroy();
  }

  /** FIN is on its way to a client that is served directly. All that is left of it is the front's, unless it only ends an upgrade. */
  #ended(connection: HttpConnection): void {
    if (connection.last?.isEnding === true) return;
    this.#countBytes(connection, connection.current);
    connection.link?.end();
  }

  #clientError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET' || error.code === 'EPIPE') socket.destroy();
    // Bytes behind the last request: it is answered, and they are nobody's. To close now could lose that answer.
    else if (error.code === 'HPE_CLOSED_CONNECTION' || !socket.writable) return;
    else this.#refuseSocket(socket, reasonFor(error));
  }

  /** What the client says cannot be read on. Requests that stand whole in front of it are answered first. */
  #refuseSocket(socket: Socket, reason: CloseReason): void {
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
    // Nobody's: what stands behind the last request, and what is missing of one that has its answer.
    if (isWhole ? isLast : isAnswered) return;
    if (!isWhole) waiting.pop();
    if (last === undefined || (!isWhole && last === current)) return this.#refuseNow(connection, reason);
    connection.unreadable = reason;
    readNoMore(socket);
  }

  #refuseNow(connection: HttpConnection, reason: CloseReason): void {
    if (connection.current !== undefined) this.refuse(connection.current, reason);
    else this.#refuseRest(connection, reason);
  }

  /** What cannot be read is a request too, with a status and neither method nor host; half a head is none. */
  #refuseRest(connection: HttpConnection, reason: CloseReason): void {
    connection.isClosing = true;
    const { status, refusal } = refusalFor(reason);
    if (status === 0) {
      this.#tell(connection, { ...(connection.last ?? nowhere), reason: reasonIndex[reason] });
    } else {
      this.#say(connection, undefined, reason);
      this.shared.requests.add(0, status);
      this.#write(connection, true, {
        host: undefined,
        slot: 0,
        backend: undefined,
        method: undefined,
        status,
        // When it began is known where its time ran out.
        ms: reason === 'hello-timeout' ? this.settings.helloMs : 0,
      });
    }
    sayLast(connection.socket, refusal);
    this.#countBytes(connection, undefined);
  }

  /** Tells the front where the connection stands; without a reason, that a request is in progress. */
  #say(
    connection: HttpConnection,
    exchange: Exchange | undefined,
    reason: CloseReason | undefined,
    isBroken = false,
    failure = 0,
  ): void {
    this.#tell(connection, {
      slot: exchange?.route?.slot ?? 0,
      backendSlot: exchange === undefined || exchange.row < 0 ? 0 : this.rows.backendSlot[exchange.row],
      dialMs: exchange?.dialMs ?? -1,
      reason: reason === undefined ? -1 : reasonIndex[reason],
      isBroken,
      isEnding: false,
      failure,
    });
  }

  #tell(connection: HttpConnection, verdict: Verdict): void {
    const { worker, handle, generation } = connection.handOff;
    connection.last = verdict;
    this.#verdicts[worker]?.say(handle, generation, verdict);
  }

  /** FIN of an upgraded connection's backend is about to be passed on. */
  backendEnds({ connection }: Exchange): void {
    if (connection.last !== undefined) this.#tell(connection, { ...connection.last, isEnding: true });
  }

  /** A backend is reached: the front's record shows it from now on. */
  reached(exchange: Exchange): void {
    this.#say(exchange.connection, exchange, undefined);
  }

  /** A line for the log, where it wants one. */
  #write(
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
    // What was given to a socket and never left it is taken back when it closes: counters only grow.
    if (bytesWritten <= connection.countedOut) return;
    this.shared.counters.add(slot, BYTES_OUT_AT, bytesWritten - connection.countedOut);
    connection.countedOut = bytesWritten;
  }

  /** Long answers are counted as they go; clients that the front has let go of are let go of here. */
  #lookAround(): void {
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
    this.h2.lookAround();
    this.kept.lookAround();
    this.#log.flush();
  }

  /** What throws for one of them ends that one. */
  #forEach(each: (connection: HttpConnection) => void): void {
    for (const connection of this.#connections.values()) {
      try {
        each(connection);
      } catch (error) {
        this.#fault(connection, error);
      }
    }
  }

  /** Our own code threw on behalf of that connection, which ends with a reset; every step by itself, as far as it goes. */
  #fault(connection: HttpConnection, error: unknown): void {
    const { current, socket, address, port } = connection;
    this.#faults.write(error, { client: formatIpPort(address, 0, port) });
    connection.isClosing = true;
    const verdict = { ...(connection.last ?? nowhere), reason: reasonIndex.fault, isBroken: true };
    attempt(() => this.#tell(connection, verdict));
    if (current !== undefined) {
      if (!current.response.headersSent) current.status = FAULT_STATUS;
      attempt(() => this.finish(current, true));
      attempt(() => this.#leave(current));
    }
    socket.destroy();
    connection.link?.destroy();
  }

  /** The same of a client whose connection is not known, or not any more. */
  #faultAt(socket: Socket, error: unknown): void {
    const connection = this.#connections.get(socket);
    if (connection !== undefined) return this.#fault(connection, error);
    this.#faults.write(error);
    socket.destroy();
  }

  #handOffFault(error: unknown, handOff: HandOff | undefined): void {
    this.#faults.write(error);
    if (handOff === undefined) return;
    const verdict = { ...nowhere, reason: reasonIndex.fault, isBroken: true };
    attempt(() => this.#verdicts[handOff.worker]?.say(handOff.handle, handOff.generation, verdict));
  }

  /** Nobody takes, or sends, what is to come next. Of a backend that thinks about its answer nothing is awaited. */
  #isStalled({ socket, meter }: HttpConnection, exchange: Exchange, time: number): boolean {
    const { request, upstream, spliced } = exchange;
    const backend = spliced ?? upstream?.socket ?? undefined;
    return meter.isStalled([socket, backend], !request.complete, this.settings.stalledMs, time);
  }

  /** A client that stopped in the middle of its request may hear so. */
  #endStalled(exchange: Exchange): void {
    const { request, response, upstream } = exchange;
    const isHeard = !request.complete && !response.headersSent && (upstream?.writableLength ?? 0) === 0;
    if (isHeard) this.refuse(exchange, 'idle-timeout');
    else this.cut(exchange, 'idle-timeout');
  }

  /** Without a word to the client. */
  #close(connection: HttpConnection, reason: CloseReason, isBroken: boolean): void {
    connection.isClosing = true;
    this.#tell(connection, { ...(connection.last ?? nowhere), reason: reasonIndex[reason], isBroken });
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

/** The fault that brought us here is told already. */
function attempt(step: () => void): void {
  try {
    step();
  } catch {
    // What can be done is done.
  }
}

/** Of what node:http could not read. */
function reasonFor({ code }: NodeJS.ErrnoException): CloseReason {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'hello-timeout';
  // FIN in the middle of a request.
  return code === 'HPE_INVALID_EOF_STATE' ? 'client-gone' : 'bad-request';
}

/** Its socket has an error: the client's reset, or that the kernel has waited in vain for the client to take something. */
function lostFor({ socket }: HttpConnection): CloseReason {
  const error: NodeJS.ErrnoException | null = socket.errored;
  return error?.code === 'ETIMEDOUT' ? 'idle-timeout' : 'client-reset';
}

/** No further request is taken from it: it was refused, or what it said last is being written. */
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
export function now(): number {
  return ORIGIN + performance.now();
}
