// One CONNECT stream of an HTTP/2 connection, between the client and the front: asks the front, passes its answer on,
// then bytes both ways, each as fast as the other takes them. END_STREAM is FIN in that direction, RST_STREAM a reset.
// Between here and the front is a unix socket, which knows no reset: verdicts say what an end was (verdicts.ts).

import { constants, type ServerHttp2Stream } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { parseResponseHead } from '../../wire/http-response.ts';
import { type FaultOwner, guard } from '../guard.ts';
import { descriptorOf } from '../io/net-reactor.ts';
import { buildHandOff, readRowHeader, type WorkerRow } from '../shared/hand-off.ts';
import type { HandedOff } from '../shared/receive-hand-off.ts';
import type { Verdict } from '../shared/verdicts.ts';
import { reasonIndex } from '../stages/record-end.ts';
import { StallMeter } from '../stall-meter.ts';
import type { H2Connect } from './h2-connect.ts';

/** What came before a reset is passed on, unless the client takes longer than this for it. */
const LAST_BYTES_MS = 2000;

const nothing = new Uint8Array(0);
const brokenOff = { slot: 0, backendSlot: 0, dialMs: -1, isBroken: false, isEnding: false };
const wasReset = { ...brokenOff, reason: reasonIndex['client-reset'] };
const wasFaulty = { ...brokenOff, reason: reasonIndex.fault };
const hasStalled = { ...brokenOff, reason: reasonIndex['idle-timeout'] };
const unavailable = { status: 503, body: Buffer.from('over-limit: the gateway is full, or about to end\n') };

/** As its connection sees it. */
export interface TunnelStream extends FaultOwner {
  /** Whether the front's answer has come. */
  readonly isAnswered: boolean;
  /** Asks whether the front still has it: where both directions are idle, nothing else would tell. */
  look(): void;
  /** The thread ends. */
  drop(): void;
}

/** `head` is the CONNECT as the front is asked. */
export function serveStream(
  thread: H2Connect,
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
  readonly #thread: H2Connect;
  readonly #connection: HandedOff;
  readonly #stream: ServerHttp2Stream;
  readonly #question: Uint8Array;
  #socket: Socket | undefined;
  /** The answer, until it is whole. */
  #held: Buffer = Buffer.alloc(0);
  #isAnswered = false;
  /** Where the front has it, once it is open. */
  #row: WorkerRow | undefined;
  #isOver = false;
  readonly #meter = new StallMeter();
  #cutTimer: NodeJS.Timeout | undefined;

  constructor(thread: H2Connect, connection: HandedOff, stream: ServerHttp2Stream, question: Uint8Array) {
    this.#thread = thread;
    this.#connection = connection;
    this.#stream = stream;
    this.#question = question;
    stream.once(
      'close',
      guard(this, () => this.#clientClosed()),
    );
  }

  /** Of the stream: it is reset, and what the front has of it ends as `fault` too. */
  onFault(error: unknown): void {
    this.#thread.tellFault(error, this.#connection);
    this.#isOver = true;
    this.#isAnswered = true;
    clearTimeout(this.#cutTimer);
    const row = this.#row;
    // Its close, which follows, has nothing to add.
    this.#row = undefined;
    try {
      if (row !== undefined) this.#say(row, wasFaulty);
      closeWithError(this.#stream);
    } catch {
      // The front sees that it ends, and not how.
    }
    this.#socket?.destroy();
  }

  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** A worker that has just died has nobody there: then the next one is asked. */
  ask(tries: number): void {
    const path = tries > 0 ? this.#thread.nextInternalListener() : undefined;
    if (path === undefined) return this.#refuse();
    const socket = connect({ path, allowHalfOpen: true });
    this.#socket = socket;
    socket.on('error', () => {});
    // Those that are left are spare: see open-files.ts. Now, since a client may open all its streams at once.
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
    socket.write(this.#question);
  }

  look(): void {
    const socket = this.#socket;
    if (this.#isOver) return this.#letGo();
    if (this.#row === undefined || socket === undefined) return;
    const ending = this.#ending(this.#row);
    // One that has ended well is read to its end first.
    if (ending === 'broken' || (ending === 'ended' && socket.readableEnded)) this.#workerEnded(socket);
    else if (
      this.#meter.isStalled([this.#stream, socket], false, this.#thread.settings.stalledMs, performance.now())
    )
      this.#giveUp(this.#row, socket);
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
    // The rest of a refusal ends with FIN.
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
        // The end of one that was reset is none.
        if (!stream.aborted) socket.end();
      }),
    );
    stream.pipe(socket, { end: false });
    socket.pipe(stream, { end: false });
  }

  /** FIN from the front, or its socket is gone. */
  #workerEnded(socket: Socket): void {
    if (this.#isOver) return;
    if (this.#row === undefined) return this.#refuse();
    const ending = this.#ending(this.#row);
    if (ending === 'ended') return this.#endAll();
    if (ending === 'broken') return this.#breakOff(socket);
    if (socket.readableEnded) this.#stream.end();
    // Gone, and not by a word of the front's: its thread has died.
    if (socket.destroyed && !(socket.readableEnded && socket.writableFinished)) this.#breakOff(socket);
  }

  #ending(row: WorkerRow): 'open' | 'ended' | 'broken' {
    return this.#thread.verdictsOf(row)?.ending(row.handle, row.generation) ?? 'broken';
  }

  /** The front's answer was no, or it closed without a word, as it does when it is full. */
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

  /** Both directions are over, and what came is passed on. */
  #endAll(): void {
    const stream = this.#stream;
    this.#isOver = true;
    stream.unpipe();
    stream.resume();
    stream.end();
  }

  /**
   * RFC 9113 8.1: what the client still has to say is not needed. Only behind END_STREAM: nghttp2 drops what waits to
   * be sent when a reset is asked for.
   */
  #letGo(): void {
    const stream = this.#stream;
    if (!stream.closed && stream.state.localClose === 1) stream.close(constants.NGHTTP2_NO_ERROR);
  }

  /** RFC 9113 8.5: a reset is CONNECT_ERROR. It comes behind what came before it. */
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

  /** The client, or the front, takes nothing of what waits for it. */
  #giveUp(row: WorkerRow, socket: Socket): void {
    this.#isOver = true;
    this.#thread.verdictsOf(row)?.say(row.handle, row.generation, hasStalled);
    closeWithError(this.#stream);
    socket.destroy();
  }

  #clientClosed(): void {
    const [stream, socket] = [this.#stream, this.#socket];
    clearTimeout(this.#cutTimer);
    const isWhole = stream.readableEnded && !stream.aborted && stream.rstCode === constants.NGHTTP2_NO_ERROR;
    // What the front has not taken yet is still passed on.
    if (isWhole && this.#row !== undefined) return;
    // One that is over has its reason.
    if (this.#row !== undefined && !this.#isOver) this.#say(this.#row, wasReset);
    this.#isOver = true;
    socket?.destroy();
  }

  #say(row: WorkerRow, verdict: Verdict): void {
    this.#thread.verdictsOf(row)?.say(row.handle, row.generation, verdict);
  }
}

/**
 * close() alone would call end(), which sends END_STREAM in front of RST_STREAM: what was cut off would look whole.
 * `waitForTrailers` holds END_STREAM back too, but ends the process (an assertion in OnTrailers, Node 26.10) when the
 * client resets the stream at the wrong moment.
 */
function closeWithError(stream: ServerHttp2Stream): void {
  if (stream.closed) return;
  stream.end = () => stream;
  stream.close(constants.NGHTTP2_CONNECT_ERROR);
}
