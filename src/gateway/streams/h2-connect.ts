// HTTP/2: CONNECT only, as Kubermatic's agents speak it. Each CONNECT stream is a connection of its own, which the stages
// identify, route, admit and dial like any other. Other requests are reset with HTTP_1_1_REQUIRED.
//
// Flow control: node:http2 reopens the connection's window as bytes arrive, and a stream's as they are passed on.
// So a stalled stream holds at most its own window, 128 KiB, and delays no other; 256 of them hold 32 MiB, which only
// clients in `agents` can reach, since only their streams are answered with 200. Bytes to a client are bounded by the
// client's own windows and one write buffer per stream.

import {
  constants,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import { type FaultOwner, guard } from '../guard.ts';
import { reactorErrorOf } from '../io/net-reactor.ts';
import { RESET, TIMED_OUT } from '../io/reactor.ts';
import { AbuseBudget } from './abuse-budget.ts';
import { buildConnectHead } from './connect-head.ts';
import { ConnectStream } from './connect-stream.ts';
import type { SessionHost } from './session-host.ts';

/** Concurrent streams. A client that needs more opens another connection. */
const MAX_STREAMS = 256;
const STREAM_WINDOW = 128 * 1024;
/** For all streams together. It is reopened at once, so it only has to cover a round trip. */
const CONNECTION_WINDOW = 1024 * 1024;
/** The same as the worker's limit for an HTTP/1.1 head. */
const MAX_HEADERS = 16_384;
const MAX_HEADER_PAIRS = 64;
/** In MB, for node:http2's header tables and queued frames. Beyond it, new streams are refused. */
const SESSION_MEMORY = 4;
/** Some programs close served streams with a reset. nghttp2's limit is for clients that do nothing else. */
const RESET_BURST = 10_000;
const RESETS_PER_SECOND = 1000;
/** A connection without streams is kept this long, or `timeouts.idle` where that is shorter. As over HTTP/1.1. */
const KEEP_MS = 75_000;
/** Between announcing the close and accepting no more streams: a round trip to most places. */
const NOTICE_MS = 100;
/** RFC 9113 6.8: a GOAWAY that cuts off no stream yet. */
const ANY_STREAM = 2 ** 31 - 1;
/** nghttp2's error numbers for a bad preface, and for frames that ask for more answers than it can send. */
const BAD_MAGIC = -903;
const FLOODED = -904;

interface Session extends FaultOwner {
  readonly http2: ServerHttp2Session;
  readonly client: number;
  readonly budget: AbuseBudget;
  readonly streams: Set<ConnectStream>;
  /** `timeouts.hello` until the first stream, then the time without any. */
  timer: NodeJS.Timeout | undefined;
  hadStream: boolean;
  /** Why we close it; undefined while only the client may. */
  reason: CloseReason | undefined;
}

export class H2Connect {
  readonly #host: SessionHost;
  readonly #sessions = new Set<Session>();
  #isDraining = false;

  constructor(host: SessionHost) {
    this.#host = host;
  }

  /** `client` is the row of that connection. */
  serve(client: number, socket: Socket): void {
    const http2 = performServerHandshake(socket, {
      settings: {
        maxConcurrentStreams: MAX_STREAMS,
        initialWindowSize: STREAM_WINDOW,
        maxHeaderListSize: MAX_HEADERS,
      },
      maxHeaderListPairs: MAX_HEADER_PAIRS,
      maxSessionMemory: SESSION_MEMORY,
      streamResetBurst: RESET_BURST,
      streamResetRate: RESETS_PER_SECOND,
    });
    const { onFault, end } = this.#host.open(client, socket);
    const session: Session = {
      onFault,
      http2,
      client,
      budget: new AbuseBudget(performance.now()),
      streams: new Set(),
      timer: undefined,
      hadStream: false,
      reason: undefined,
    };
    this.#sessions.add(session);
    session.timer = setTimeout(
      guard(session, () => this.#close(session, 'hello-timeout')),
      this.#host.settings.helloMs,
    );
    // node:http2 closes the socket before it emits the error: this comes before both.
    const destroy = http2.destroy.bind(http2);
    http2.destroy = (error, code) => {
      guard(session, () => {
        if (!this.#sessions.delete(session)) return;
        clearTimeout(session.timer);
        session.reason ??= reasonFor(error) ?? (session.hadStream ? 'done' : 'client-gone');
        end(session.reason);
      })();
      destroy(error, session.reason === 'over-limit' ? constants.NGHTTP2_ENHANCE_YOUR_CALM : code);
    };
    http2.on('error', () => {});
    http2.on(
      'connect',
      guard(session, () => http2.setLocalWindowSize(CONNECTION_WINDOW)),
    );
    http2.on(
      'ping',
      guard(session, () => this.#spendBudget(session)),
    );
    http2.on(
      'remoteSettings',
      guard(session, () => this.#spendBudget(session)),
    );
    http2.on(
      'stream',
      guard(
        session,
        (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _: number, rawHeaders: readonly string[]) =>
          this.#stream(session, stream, headers[':method'], rawHeaders),
      ),
    );
    // After its FIN a client cannot acknowledge anything, so the session is over.
    socket.once(
      'end',
      guard(session, () => http2.destroy()),
    );
    if (this.#isDraining) this.#announceClose(session);
  }

  /** Accepts no new streams; open streams run to their end. */
  drain(): void {
    this.#isDraining = true;
    for (const session of this.#sessions) guard(session, () => this.#announceClose(session))();
  }

  #stream(
    session: Session,
    stream: ServerHttp2Stream,
    method: string | undefined,
    rawHeaders: readonly string[],
  ): void {
    stream.on('error', () => {});
    if (method !== 'CONNECT') {
      stream.close(constants.NGHTTP2_HTTP_1_1_REQUIRED);
      this.#spendBudget(session);
      return;
    }
    session.hadStream = true;
    clearTimeout(session.timer);
    const connect = new ConnectStream(stream, session);
    session.streams.add(connect);
    stream.once(
      'close',
      guard(session, () => {
        session.streams.delete(connect);
        if (!connect.isAnswered) this.#spendBudget(session);
        if (session.streams.size === 0) this.#keep(session);
      }),
    );
    this.#host.accept(session.client, connect, false, buildConnectHead(rawHeaders));
  }

  /** No stream is open: wait for the next one. */
  #keep(session: Session): void {
    if (!this.#sessions.has(session)) return;
    const limit = Math.min(KEEP_MS, this.#host.settings.idleMs ?? KEEP_MS);
    session.timer = setTimeout(
      guard(session, () => this.#close(session, 'done')),
      limit,
    );
  }

  #spendBudget(session: Session): void {
    if (session.budget.take(performance.now()) || session.http2.destroyed) return;
    session.reason = 'over-limit';
    session.http2.destroy(new Error('Abuse budget exhausted'));
  }

  #announceClose(session: Session): void {
    if (session.http2.destroyed) return;
    session.http2.goaway(constants.NGHTTP2_NO_ERROR, ANY_STREAM);
    setTimeout(
      guard(session, () => this.#close(session, 'done')),
      NOTICE_MS,
    );
  }

  /** Sends GOAWAY, and closes once all streams have ended. */
  #close(session: Session, reason: CloseReason): void {
    session.reason ??= reason;
    if (!session.http2.closed) session.http2.close();
  }
}

/** Why node:http2 dropped the connection; undefined if the client ended it. */
function reasonFor(
  error: (Error & { readonly code?: string; readonly errno?: number }) | null | undefined,
): CloseReason | undefined {
  if (error === undefined || error === null) return undefined;
  switch (error.code) {
    case 'ERR_HTTP2_ERROR':
      if (error.errno === FLOODED) return 'over-limit';
      return error.errno === BAD_MAGIC ? 'not-recognized' : 'bad-request';
    case 'ERR_HTTP2_TOO_MANY_INVALID_FRAMES':
      return 'over-limit';
    default: {
      const failure = reactorErrorOf(error);
      return failure === TIMED_OUT ? 'idle-timeout' : failure === RESET ? 'client-reset' : undefined;
    }
  }
}
