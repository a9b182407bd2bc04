// One CONNECT stream of an HTTP/2 connection: sends the CONNECT to a worker's internal listener, passes the answer to
// the client, then pipes bytes both ways. END_STREAM maps to FIN in that direction, RST_STREAM to a reset. The unix
// socket to the worker has no reset: verdicts tell how a stream ended (verdicts.ts).

import { constants, type ServerHttp2Stream } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { parseResponseHead } from '../../wire/http-response.ts';
import { type FaultOwner, guard } from '../guard.ts';
import { descriptorOf } from '../io/net-reactor.ts';
import { buildHandOff, readRowHeader, type WorkerRow } from '../shared/hand-off.ts';
import type { HandedOff } from '../shared/receive-hand-off.ts';
import { noVerdict, type Verdict, type Verdicts } from '../shared/verdicts.ts';
import type { Settings } from '../stages/data-path.ts';
import { reasonIndex } from '../stages/record-end.ts';
import { StallMeter } from '../stall-meter.ts';

/** Bytes that came before a reset are passed on, unless the client takes longer than this to read them. */
const LAST_BYTES_MS = 2000;

const nothing = new Uint8Array(0);
const wasReset = { ...noVerdict, reason: reasonIndex['client-reset'] };
const wasFaulty = { ...noVerdict, reason: reasonIndex.fault };
const hasStalled = { ...noVerdict, reason: reasonIndex['idle-timeout'] };
const unavailable = { status: 503, body: Buffer.from('over-limit: the gateway is full or shutting down\n') };

/** What a stream needs of its thread. */
export interface StreamThread {
  readonly settings: Settings;
  /** The paths that streams go back to, by worker. */
  readonly internalListeners: readonly string[];
  /** Round-robin over the workers. */
  nextInternalListener(): string | undefined;
  verdictsOf(row: WorkerRow): Verdicts | undefined;
  /** Our own code threw on behalf of a stream of that connection. */
  reportFault(error: unknown, connection: HandedOff): void;
}

/** A stream as its HTTP/2 connection sees it. */
export interface TunnelStream extends FaultOwner {
  /** Whether the worker has answered the CONNECT. */
  readonly isAnswered: boolean;
  /** Checks whether the worker still has the stream: while both directions are idle, nothing else would show it. */
  check(): void;
  /** Called when the thread stops. */
  drop(): void;
}

/** `head` is the CONNECT for the worker. */
export function serveStream(
  thread: StreamThread,
  connection: HandedOff,
  stream: ServerHttp2Stream,
  head: Uint8Array,
): TunnelStream {
  const { source, destination, handOff } = connection;
  const header = buildHandOff(source, destination, { ...handOff, isH2: true });
  const tunnel = new ConnectStream(thread, connection, stream, Buffer.concat([header, head]));
  guard(tunnel, () => tunnel.ask(thread.internalListeners.length))();
  return tunnel;
}

class ConnectStream implements TunnelStream {
  readonly #thread: StreamThread;
  readonly #connection: HandedOff;
  readonly #stream: ServerHttp2Stream;
  readonly #connectBytes: Uint8Array;
  #socket: Socket | undefined;
  /** The worker's answer, until its head is complete. */
  #held: Buffer = Buffer.alloc(0);
  #isAnswered = false;
  /** The worker's row for this stream, once it is open. */
  #row: WorkerRow | undefined;
  #isOver = false;
  readonly #meter = new StallMeter();
  #cutTimer: NodeJS.Timeout | undefined;

  constructor(
    thread: StreamThread,
    connection: HandedOff,
    stream: ServerHttp2Stream,
    connectBytes: Uint8Array,
  ) {
    this.#thread = thread;
    this.#connection = connection;
    this.#stream = stream;
    this.#connectBytes = connectBytes;
    stream.once(
      'close',
      guard(this, () => this.#clientClosed()),
    );
  }

  /** Resets the stream; the worker's connection ends with `fault` too. */
  onFault(error: unknown): void {
    this.#thread.reportFault(error, this.#connection);
    this.#isOver = true;
    this.#isAnswered = true;
    clearTimeout(this.#cutTimer);
    const row = this.#row;
    // The close event that follows must not report another reason.
    this.#row = undefined;
    try {
      if (row !== undefined) this.#report(row, wasFaulty);
      closeWithError(this.#stream);
    } catch {
      // The worker then sees that the stream ended, but not why.
    }
    this.#socket?.destroy();
  }

  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** When a worker has just died, nobody listens on its path: try the next one. */
  ask(tries: number): void {
    const path = tries > 0 ? this.#thread.nextInternalListener() : undefined;
    if (path === undefined) return this.#refuse();
    const socket = connect({ path, allowHalfOpen: true });
    this.#socket = socket;
    socket.on('error', () => {});
    // The remaining descriptors are reserved: see open-files.ts. Checked before `connect`, because a client may open
    // all its streams at once.
    if (descriptorOf(socket) >= this.#thread.settings.clientFiles) return this.#refuse();
    socket.once(
      'close',
      guard(this, () => {
        if (this.#isOver) return;
        if (socket.bytesRead === 0 && socket.bytesWritten === 0) this.ask(tries - 1);
        else this.#workerEnded(socket);
      }),
    );
    socket.once(
      'end',
      guard(this, () => this.#workerEnded(socket)),
    );
    socket.on('data', this.#answer);
    socket.write(this.#connectBytes);
  }

  check(): void {
    const socket = this.#socket;
    if (this.#isOver) return this.#closeEnded();
    if (this.#row === undefined || socket === undefined) return;
    const ending = this.#ending(this.#row);
    // A stream that ended cleanly is read to its end first.
    if (ending === 'broken' || (ending === 'ended' && socket.readableEnded)) this.#workerEnded(socket);
    else if (
      this.#meter.isStalled([this.#stream, socket], false, this.#thread.settings.stalledMs, performance.now())
    )
      this.#endStalled(this.#row, socket);
  }

  drop(): void {
    this.#isOver = true;
    this.#socket?.destroy();
  }

  readonly #answer = guard(this, (chunk: Buffer): void => {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const head = parseResponseHead(this.#held, 0, this.#held.length);
    if (head.kind !== 'found') return;
    this.#isAnswered = true;
    // A refusal is read until FIN.
    if (head.value.status === 200) this.#open(head.value.end);
  });

  #open(end: number): void {
    const [stream, socket] = [this.#stream, this.#socket];
    if (socket === undefined || stream.closed) return;
    this.#row = readRowHeader(this.#held.toString('latin1', 0, end));
    socket.off('data', this.#answer);
    socket.pause();
    if (this.#held.length > end) socket.unshift(this.#held.subarray(end));
    this.#held = Buffer.alloc(0);
    stream.respond({ ':status': 200 });
    stream.once(
      'end',
      guard(this, () => {
        // A reset stream emits `end` too, but that is not a FIN.
        if (!stream.aborted) socket.end();
      }),
    );
    stream.pipe(socket, { end: false });
    socket.pipe(stream, { end: false });
  }

  /** The worker sent FIN, or its socket has closed. */
  #workerEnded(socket: Socket): void {
    if (this.#isOver) return;
    if (this.#row === undefined) return this.#refuse();
    const ending = this.#ending(this.#row);
    if (ending === 'ended') return this.#endAll();
    if (ending === 'broken') return this.#breakOff(socket);
    if (socket.readableEnded) this.#stream.end();
    // Closed without a verdict: the worker has died.
    if (socket.destroyed && !(socket.readableEnded && socket.writableFinished)) this.#breakOff(socket);
  }

  #ending(row: WorkerRow): 'open' | 'ended' | 'broken' {
    return this.#thread.verdictsOf(row)?.ending(row.handle, row.generation) ?? 'broken';
  }

  /** The worker refused, or closed without an answer, as it does when it is full. */
  #refuse(): void {
    this.#isOver = true;
    this.#isAnswered = true;
    const stream = this.#stream;
    this.#socket?.destroy();
    if (stream.closed) return;
    const head = parseResponseHead(this.#held, 0, this.#held.length);
    const isWhole = head.kind === 'found' && head.value.status !== 200;
    const { status, body } = isWhole
      ? { status: head.value.status, body: this.#held.subarray(head.value.end) }
      : unavailable;
    stream.respond({
      ':status': status,
      'content-type': 'text/plain; charset=utf-8',
      'content-length': body.length,
    });
    stream.end(body);
    stream.resume();
  }

  /** Both directions have ended, and all bytes were passed on. */
  #endAll(): void {
    const stream = this.#stream;
    this.#isOver = true;
    stream.unpipe();
    stream.resume();
    stream.end();
  }

  /**
   * RFC 9113 8.1: the rest of the client's input is not needed. Only after END_STREAM was sent: nghttp2 drops queued
   * bytes when a reset is requested.
   */
  #closeEnded(): void {
    const stream = this.#stream;
    if (!stream.closed && stream.state.localClose === 1) stream.close(constants.NGHTTP2_NO_ERROR);
  }

  /** RFC 9113 8.5: a reset is CONNECT_ERROR. It is sent after the bytes that came before it. */
  #breakOff(socket: Socket): void {
    const stream = this.#stream;
    const cut = guard(this, () => {
      this.#isOver = true;
      clearTimeout(this.#cutTimer);
      closeWithError(stream);
      socket.destroy();
    });
    this.#cutTimer ??= setTimeout(cut, LAST_BYTES_MS);
    if (!socket.readableEnded && !socket.destroyed) return;
    if (stream.closed || stream.writableFinished) cut();
    else if (stream.writableEnded) stream.once('finish', cut);
    else stream.write(nothing, cut);
  }

  /** The client or the worker does not take the bytes that wait for it. */
  #endStalled(row: WorkerRow, socket: Socket): void {
    this.#isOver = true;
    this.#report(row, hasStalled);
    closeWithError(this.#stream);
    socket.destroy();
  }

  #clientClosed(): void {
    const [stream, socket] = [this.#stream, this.#socket];
    clearTimeout(this.#cutTimer);
    const isWhole = stream.readableEnded && !stream.aborted && stream.rstCode === constants.NGHTTP2_NO_ERROR;
    // Bytes that the worker has not taken yet are still passed on.
    if (isWhole && this.#row !== undefined) return;
    // A stream that is over already has its reason.
    if (this.#row !== undefined && !this.#isOver) this.#report(this.#row, wasReset);
    this.#isOver = true;
    socket?.destroy();
  }

  #report(row: WorkerRow, verdict: Verdict): void {
    this.#thread.verdictsOf(row)?.say(row.handle, row.generation, verdict);
  }
}

/**
 * close() alone would call end(), which sends END_STREAM before RST_STREAM: a stream that was cut off would look
 * complete. `waitForTrailers` also holds END_STREAM back, but it ends the process (an assertion in OnTrailers, Node
 * 26.10) when the client resets the stream at the wrong moment.
 */
function closeWithError(stream: ServerHttp2Stream): void {
  if (stream.closed) return;
  stream.end = () => stream;
  stream.close(constants.NGHTTP2_CONNECT_ERROR);
}
