// exchange: one HTTP request on its way to a backend, and the response on its way to the client. Both are framed as
// strictly as they were read; a side that takes no bytes stops the other. Once the response is complete, the backend is
// kept for another request or closed, and the client may send its next one.

import { startChunkedBody } from '../../wire/chunked-body.ts';
import { framingOf, parseResponseHead, type ResponseHead } from '../../wire/http-response.ts';
import { AGAIN, FAILED, HUNG_UP, READABLE, RESET, TIMED_OUT, WRITABLE } from '../io/reactor.ts';
import {
  BACKEND_SIDE,
  CLIENT_SIDE,
  DIALING,
  ENDED,
  EXCHANGING,
  HUNG,
  LASTING,
  MORE,
  OPEN,
  REQUESTING,
} from '../shared/rows.ts';
import { dropUsed, heldBytes, hold, readAhead } from './client-input.ts';
import { copyBytes } from './copy-bytes.ts';
import type { DataPath } from './data-path.ts';
import { end, endInOrder, endWithReset, hangUpBackend, refuse } from './end.ts';
import { countBytes, endRequest } from './end-request.ts';
import type { ExchangeState } from './exchange-state.ts';
import { writeResponseHead } from './forward-headers.ts';
import { CHUNKED_READ, frameChunks, lastChunk, writeChunk } from './frame-body.ts';
import { keepBackend } from './keep-backend.ts';
import { READ_BUFFER } from './kept-buffers.ts';
import { lastLines } from './last-lines.ts';
import { flushBytes, sendBytes, takeKept } from './send-bytes.ts';
import { beginTunnel } from './tunnel.ts';

/** Reads per direction before other handles get their turn. */
const READS_PER_TURN = 2;
/** An exchange that lasts this long gets TCP keepalive towards the backend. */
const LASTS_MS = 1000;
/** An idle connection is kept this long for another request, or `timeouts.idle` where that is shorter. */
const KEEP_ALIVE_MS = 75_000;
/** Responses are read behind this much room, so that their head, written anew, fits in front of the body. */
const ROOM = 32 * 1024;
const SWITCHING_PROTOCOLS = 101;
const BAD_GATEWAY = 502;
const MOST_DROPPED = 64;

const nothing = new Uint8Array(0);

/** A backend is connected. `header` goes in front of the request. */
export function beginExchange(
  path: DataPath,
  client: number,
  backend: number,
  header: Uint8Array | undefined,
): void {
  const { rows, io } = path;
  const exchange = path.exchanges[client];
  if (exchange === undefined) return;
  rows.state[client] = EXCHANGING;
  rows.state[backend] = EXCHANGING;
  rows.side[backend] = BACKEND_SIDE;
  rows.flags[client] &= ~LASTING;
  rows.activeAt[client] = io.now();
  path.wheel.set(client, rows.activeAt[client] + LASTS_MS);
  let length = 0;
  if (header !== undefined) {
    path.scratch.set(header);
    length = header.length;
  }
  length += path.scratch.write(exchange.head, length, 'latin1');
  // Only for another try; a connection that lasts need not hold it.
  if (!exchange.wasReused) exchange.head = '';
  // What has come of the body goes along: a segment less for the backend to wait for.
  const isSent =
    exchange.isWhole || heldBytes(path, client) === 0
      ? sendBody(path, client, exchange, path.scratch, 0, length)
      : passHeld(path, client, exchange, length);
  if (!isSent || (!exchange.isWhole && !pumpRequest(path, client, exchange))) return;
  if ((rows.flags[backend] & MORE) !== 0) pumpResponse(path, client, exchange);
}

export function exchangeEvent(path: DataPath, handle: number, events: number): void {
  const { rows } = path;
  const isClient = rows.side[handle] === CLIENT_SIDE;
  const client = isClient ? handle : rows.peer[handle];
  const exchange = path.exchanges[client];
  if (exchange === undefined) return;
  if ((events & (READABLE | HUNG_UP | FAILED)) !== 0) rows.flags[handle] |= MORE;
  if (isClient) clientEvent(path, client, exchange, events);
  else backendEvent(path, client, exchange, events);
}

/** Resumes after other handles had their turn. */
export function continueExchange(path: DataPath, handle: number): void {
  const { rows } = path;
  const isClient = rows.side[handle] === CLIENT_SIDE;
  const client = isClient ? handle : rows.peer[handle];
  const exchange = path.exchanges[client];
  if (exchange === undefined) return;
  if (isClient) pumpRequest(path, client, exchange);
  else pumpResponse(path, client, exchange);
}

function clientEvent(path: DataPath, client: number, exchange: ExchangeState, events: number): void {
  const { rows } = path;
  if ((events & FAILED) !== 0) return clientLost(path, client);
  if ((events & WRITABLE) !== 0 && rows.kept[client] !== undefined) {
    if (!flushBytes(path, client)) return clientLost(path, client);
    if (rows.kept[client] === undefined) {
      if (exchange.isAnswered) return finish(path, client, exchange);
      if ((rows.flags[rows.peer[client]] & MORE) !== 0 && !pumpResponse(path, client, exchange)) return;
    }
  }
  if ((rows.flags[client] & MORE) !== 0) pumpRequest(path, client, exchange);
}

function backendEvent(path: DataPath, client: number, exchange: ExchangeState, events: number): void {
  const { rows } = path;
  const backend = rows.peer[client];
  if ((events & (WRITABLE | FAILED)) !== 0 && rows.kept[backend] !== undefined) {
    // A write would consume the error, which a read is to report.
    if ((events & FAILED) !== 0 || !flushBytes(path, backend)) exchange.isUnwanted = true;
    if (!pumpRequest(path, client, exchange)) return;
  }
  if ((rows.flags[backend] & MORE) !== 0) pumpResponse(path, client, exchange);
}

/** Passes the body on; reads ahead if there is none left. False when the exchange is over. */
function pumpRequest(path: DataPath, client: number, exchange: ExchangeState): boolean {
  const { rows, io } = path;
  for (let reads = 0; reads < READS_PER_TURN; ) {
    if (exchange.isWhole || exchange.isUnwanted) {
      const error = (rows.flags[client] & MORE) === 0 ? 0 : readAhead(path, client);
      if (error < 0) clientLost(path, client, error);
      else if (rows.input[client] >= ENDED) watch(path, client, exchange);
      return error === 0;
    }
    if (rows.kept[rows.peer[client]] !== undefined) {
      watch(path, client, exchange);
      return true;
    }
    if (heldBytes(path, client) > 0) {
      if (!passHeld(path, client, exchange, 0)) return false;
      continue;
    }
    if (rows.input[client] >= ENDED) {
      refuse(path, client, 'client-gone');
      return false;
    }
    const room = readSpace(path, client);
    const space = Math.min(room, exchange.body.chunks === undefined ? exchange.body.left : CHUNKED_READ);
    const count = io.read(client, path.kept.buffer, 0, space);
    if (count === AGAIN) {
      rows.flags[client] &= ~MORE;
      watch(path, client, exchange);
      return true;
    }
    if (count < 0) {
      clientLost(path, client, count);
      return false;
    }
    if (count === 0) {
      rows.input[client] = ENDED;
      continue;
    }
    if (count < space && rows.input[client] === OPEN) rows.flags[client] &= ~MORE;
    else rows.flags[client] |= MORE;
    rows.bytesIn[client] += count;
    rows.activeAt[client] = io.now();
    countBytes(path, client, exchange);
    if (!passBody(path, client, exchange, path.kept.buffer, 0, count, 0)) return false;
    if ((rows.flags[client] & MORE) === 0 && !exchange.isWhole) {
      watch(path, client, exchange);
      return true;
    }
    reads++;
  }
  path.resumeLater(client);
  return true;
}

function readSpace({ kept, io, rows }: DataPath, client: number): number {
  return Math.min(kept.readSpace(rows.cluster[client]), io.readSize);
}

/** Passes on what is held of the body, behind the first `front` bytes of `scratch`. False when the exchange is over. */
function passHeld(path: DataPath, client: number, exchange: ExchangeState, front: number): boolean {
  const { rows } = path;
  const held = rows.held[client] as Uint8Array;
  const to = Math.min(rows.heldTo[client], rows.understood[client] + CHUNKED_READ);
  if (!passBody(path, client, exchange, held, rows.understood[client], to, front)) return false;
  dropUsed(path, client);
  return true;
}

/** Passes on what [from, to) has of the body, of bytes that are held or just read. False when the exchange is over. */
function passBody(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  bytes: Uint8Array,
  from: number,
  to: number,
  front: number,
): boolean {
  const { body } = exchange;
  const { scratch } = path;
  if (body.chunks === undefined) {
    const used = Math.min(to, from + body.left);
    body.left -= used - from;
    exchange.isWhole = body.left === 0;
    take(path, client, bytes, used, to);
    if (front === 0) return sendBody(path, client, exchange, bytes, from, used);
    return sendBody(path, client, exchange, scratch, 0, copyBytes(bytes, from, used, scratch, front));
  }
  const framed = frameChunks(body, bytes, from, to, scratch, front, true);
  if (framed.isBroken) {
    refuse(path, client, 'bad-request');
    return false;
  }
  exchange.isWhole = framed.isWhole;
  take(path, client, bytes, framed.at, to);
  return sendBody(path, client, exchange, scratch, 0, framed.length);
}

/**
 * The body has the bytes up to `used`. Before they are sent: sending may complete the exchange, and the next request
 * must not begin with them.
 */
function take(path: DataPath, client: number, bytes: Uint8Array, used: number, to: number): void {
  if (path.rows.held[client] === bytes) path.rows.understood[client] = used;
  else if (used < to) hold(path, client, bytes.subarray(used, to));
}

function sendBody(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  bytes: Uint8Array,
  from: number,
  to: number,
): boolean {
  if (exchange.isUnwanted || sendBytes(path, path.rows.peer[client], client, bytes, from, to)) return true;
  if (!exchange.wasReused || !exchange.isRepeatable) return stopSending(path, client, exchange);
  repeat(path, client, exchange);
  return false;
}

/** The backend takes no more: it may have answered already. False when the exchange is over. */
function stopSending(path: DataPath, client: number, exchange: ExchangeState): boolean {
  exchange.isUnwanted = true;
  path.rows.flags[path.rows.peer[client]] |= MORE;
  return pumpResponse(path, client, exchange);
}

/** Passes the response on. False when the exchange is over. */
function pumpResponse(path: DataPath, client: number, exchange: ExchangeState): boolean {
  const { rows, io } = path;
  const backend = rows.peer[client];
  for (let reads = 0; reads < READS_PER_TURN; reads++) {
    if (rows.kept[client] !== undefined) {
      watch(path, client, exchange);
      return true;
    }
    const isFramed = exchange.status === 0 || exchange.isChunked || exchange.answer.chunks !== undefined;
    const room = Math.min(readSpace(path, client), READ_BUFFER - ROOM);
    const space = isFramed ? Math.min(room, CHUNKED_READ) : room;
    const count = io.read(backend, path.kept.buffer, ROOM, ROOM + space);
    if (count === AGAIN) {
      rows.flags[backend] &= ~MORE;
      return true;
    }
    if (count <= 0)
      return count === 0 ? backendEnded(path, client, exchange) : backendLost(path, client, exchange, count);
    if (count < space && rows.input[backend] === OPEN) rows.flags[backend] &= ~MORE;
    else rows.flags[backend] |= MORE;
    rows.activeAt[client] = io.now();
    const goesOn =
      exchange.status === 0
        ? readAnswer(path, client, exchange, ROOM, ROOM + count)
        : passAnswer(path, client, exchange, ROOM, ROOM + count, 0);
    if (!goesOn) return false;
    if ((rows.flags[backend] & MORE) === 0) return true;
  }
  path.resumeLater(backend);
  return true;
}

/** Reads heads in [from, to) of the read buffer, with the beginning of one that is held in front of them. */
function readAnswer(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  from: number,
  to: number,
): boolean {
  const { rows } = path;
  const backend = rows.peer[client];
  const { buffer } = path.kept;
  let at = from;
  const held = rows.held[backend];
  if (held !== undefined) {
    at -= held.length;
    buffer.set(held, at);
    rows.held[backend] = undefined;
  }
  // A backend may send thousands of informational responses at once: they are passed on with one write.
  let informational = 0;
  for (;;) {
    const head = parseResponseHead(buffer, at, to, path.responseHead);
    if (head.kind === 'incomplete') {
      if (at < to) rows.held[backend] = Uint8Array.prototype.slice.call(buffer, at, to);
      return sendInformational(path, client, informational);
    }
    if (head.kind === 'reject') return backendLost(path, client, exchange);
    const { status, end: next } = head.value;
    // The kept connection works: nothing is repeated behind a response.
    exchange.wasReused = false;
    exchange.head = '';
    const isFinal = status >= 200 || status === SWITCHING_PROTOCOLS;
    if (isFinal && !sendInformational(path, client, informational)) return false;
    if (status >= 200) return beginAnswer(path, client, exchange, head.value, to);
    if (isFinal) return switchProtocols(path, client, exchange, head.value, to);
    informational += writeInformational(path, client, exchange, head.value, informational);
    at = next;
  }
}

/**
 * Writes the head of a 1xx response to `scratch`, starting at `into`. They pass (RFC 9110 15.2), except to HTTP/1.0,
 * which has none, and to a client that does not read. Returns the length.
 */
function writeInformational(
  { rows, scratch }: DataPath,
  client: number,
  exchange: ExchangeState,
  head: ResponseHead,
  into: number,
): number {
  if (exchange.isHttp10 || rows.kept[client] !== undefined) return 0;
  return writeResponseHead(scratch.subarray(into), head, {
    isUpgrade: false,
    isChunked: false,
    last: nothing,
  });
}

/** Sends that many bytes of `scratch`. False when the exchange is over. */
function sendInformational(path: DataPath, client: number, length: number): boolean {
  if (!sendBytes(path, client, client, path.scratch, 0, length)) {
    clientLost(path, client);
    return false;
  }
  path.rows.bytesOut[client] += length;
  return true;
}

function beginAnswer(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  head: ResponseHead,
  to: number,
): boolean {
  const framing = framingOf(head, exchange.method);
  if (framing === undefined) return backendLost(path, client, exchange);
  const { answer } = exchange;
  const isLengthKnown = typeof framing.body === 'number';
  answer.left = framing.body === 'until-close' ? Infinity : isLengthKnown ? (framing.body as number) : 0;
  if (framing.body === 'chunked') answer.chunks = startChunkedBody();
  exchange.isChunked = !isLengthKnown && !exchange.isHttp10;
  exchange.backendCloses = !framing.keepAlive;
  if (!exchange.isWhole || path.isDraining || (exchange.isHttp10 && !isLengthKnown))
    exchange.keepAlive = false;
  exchange.status = head.status;
  exchange.isStarted = true;
  const length = writeResponseHead(path.scratch, head, {
    isUpgrade: false,
    isChunked: framing.body === 'chunked' && exchange.isChunked,
    last: lastLines(keepAliveMs(path), exchange),
  });
  return passAnswer(path, client, exchange, head.end, to, length);
}

/** Passes on the body in [from, to) of the read buffer, behind the first `front` bytes of `scratch`. */
function passAnswer(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  from: number,
  to: number,
  front: number,
): boolean {
  const { rows, scratch } = path;
  const { buffer } = path.kept;
  const { answer } = exchange;
  let used = to;
  let isWhole = false;
  let length = to - from + front;
  let isSent: boolean;
  if (answer.chunks === undefined && !exchange.isChunked) {
    used = Math.min(to, from + answer.left);
    answer.left -= used - from;
    isWhole = answer.left === 0;
    length = used - from + front;
    copyBytes(scratch, 0, front, buffer, from - front);
    isSent = sendBytes(path, client, client, buffer, from - front, used);
  } else {
    if (answer.chunks === undefined) length = writeChunk(buffer, from, to, scratch, front);
    else {
      const framed = frameChunks(answer, buffer, from, to, scratch, front, exchange.isChunked);
      if (framed.isBroken) return backendLost(path, client, exchange);
      ({ length, at: used, isWhole } = framed);
    }
    isSent = sendBytes(path, client, client, scratch, 0, length);
  }
  if (!isSent) {
    clientLost(path, client);
    return false;
  }
  rows.bytesOut[client] += length;
  countBytes(path, client, exchange);
  if (!isWhole) return true;
  answered(path, client, exchange, used < to);
  return false;
}

/** FIN of the backend: the end of a body without a length, else it comes too early. */
function backendEnded(path: DataPath, client: number, exchange: ExchangeState): boolean {
  if (exchange.status === 0 || exchange.answer.left !== Infinity) return backendLost(path, client, exchange);
  const length = exchange.isChunked ? path.scratch.write(lastChunk([]), 0, 'latin1') : 0;
  if (!sendBytes(path, client, client, path.scratch, 0, length)) {
    clientLost(path, client);
    return false;
  }
  path.rows.bytesOut[client] += length;
  answered(path, client, exchange, true);
  return false;
}

/** The whole response has been read. `isMore`: bytes follow that belong to no request. */
function answered(path: DataPath, client: number, exchange: ExchangeState, isMore: boolean): void {
  const { rows } = path;
  const backend = rows.peer[client];
  const isTaken = exchange.isWhole && !exchange.isUnwanted;
  exchange.isAnswered = true;
  exchange.isUnwanted = true;
  const isKept =
    exchange.isKept &&
    isTaken &&
    !exchange.backendCloses &&
    !isMore &&
    rows.kept[backend] === undefined &&
    rows.input[backend] === OPEN &&
    (rows.flags[backend] & MORE) === 0;
  rows.peer[client] = -1;
  if (isKept) keepBackend(path, backend, rows.backendSlot[client], exchange.isShared ? -1 : client);
  else {
    path.release(backend);
    path.io.close(backend);
  }
  if (rows.kept[client] === undefined) finish(path, client, exchange);
  else watch(path, client, exchange);
}

/** The whole response is written: the connection waits for the next request, or ends. */
function finish(path: DataPath, client: number, exchange: ExchangeState): void {
  const { rows, io, wheel, settings } = path;
  endRequest(path, client, exchange, false);
  const isMore = heldBytes(path, client) > 0;
  const isLeft = rows.input[client] >= ENDED && !isMore;
  if (!exchange.keepAlive || !exchange.isWhole || path.isDraining || isLeft)
    return endInOrder(path, client, 'done');
  rows.state[client] = REQUESTING;
  exchange.isBehind = isMore;
  exchange.startedAt = io.now();
  wheel.set(client, exchange.startedAt + (isMore ? settings.helloMs : keepAliveMs(path)));
  // A FIN that came with the request is reported only once.
  if (rows.input[client] === HUNG) rows.flags[client] |= MORE;
  if (isMore || (rows.flags[client] & MORE) !== 0) path.resumeLater(client);
}

export function keepAliveMs({ settings }: DataPath): number {
  return Math.min(KEEP_ALIVE_MS, settings.idleMs ?? KEEP_ALIVE_MS);
}

/** The backend closed, reset, answered what is not HTTP, or has taken nothing for too long. */
function backendLost(path: DataPath, client: number, exchange: ExchangeState, error = RESET): false {
  if (error === TIMED_OUT) endWithReset(path, client, 'idle-timeout');
  else if (!exchange.wasReused) refuse(path, client, 'backend-reset');
  else if (exchange.isRepeatable) repeat(path, client, exchange);
  else {
    // The backend may have served the request. The client's connection ends as the backend's did: a client expects that
    // of a persistent connection, and knows which of its requests it may send again (RFC 9112 9.3.1).
    exchange.status = BAD_GATEWAY;
    endWithReset(path, client, 'backend-reset');
  }
  return false;
}

/** The backend closed the kept connection just as we took it: once more over a new one (RFC 9110 9.2.2). */
function repeat(path: DataPath, client: number, exchange: ExchangeState): void {
  hangUpBackend(path, client);
  exchange.mayReuse = false;
  exchange.wasReused = false;
  exchange.isUnwanted = false;
  exchange.isRepeated = true;
  path.rows.state[client] = DIALING;
  path.wheel.clear(client);
  path.resumeLater(client);
}

function clientLost(path: DataPath, client: number, error = lossOf(path, client)): void {
  endWithReset(path, client, error === TIMED_OUT ? 'idle-timeout' : 'client-reset');
}

/** The error of a client that has failed, behind the bytes that it sent before. */
function lossOf({ io, scratch }: DataPath, client: number): number {
  for (let reads = 0; reads < MOST_DROPPED; reads++) {
    const count = io.read(client, scratch, 0, scratch.length);
    if (count <= 0) return count;
  }
  return 0;
}

/** The backend switched protocols: from here on bytes pass unread, and each direction has its own FIN. */
function switchProtocols(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  head: ResponseHead,
  to: number,
): false {
  const { rows } = path;
  const backend = rows.peer[client];
  // A backend that has not taken the whole request cannot know of the offer.
  if (!exchange.mayUpgrade || rows.kept[backend] !== undefined) return backendLost(path, client, exchange);
  exchange.status = SWITCHING_PROTOCOLS;
  exchange.isStarted = true;
  // The tunnel sends and counts what is left of an informational response.
  const waiting = takeKept(path, client);
  rows.bytesOut[client] -= waiting.length;
  countBytes(path, client, exchange);
  exchange.isSwitched = true;
  const length = writeResponseHead(path.scratch, head, {
    isUpgrade: true,
    isChunked: false,
    last: nothing,
  });
  const answer = Buffer.concat([
    waiting,
    path.scratch.subarray(0, length),
    path.kept.buffer.subarray(head.end, to),
  ]);
  const held = rows.held[client];
  const [from, heldTo] = [rows.understood[client], rows.heldTo[client]];
  rows.held[client] = undefined;
  rows.heldTo[client] = 0;
  rows.understood[client] = 0;
  // The tunnel reads the FIN again, and passes it on.
  if (rows.input[client] >= ENDED) {
    rows.input[client] = HUNG;
    rows.flags[client] |= MORE;
  }
  beginTunnel(path, client, backend, held, from, heldTo, answer);
  return false;
}

/** Answers with a redirect. The body of the request, if it has come, is dropped. */
export function redirect(path: DataPath, client: number, exchange: ExchangeState, location: string): void {
  const { rows } = path;
  rows.state[client] = EXCHANGING;
  exchange.isUnwanted = true;
  while (!exchange.isWhole) {
    if (readAhead(path, client) < 0) return clientLost(path, client);
    if (heldBytes(path, client) === 0) break;
    if (!passHeld(path, client, exchange, 0)) return;
  }
  if (!exchange.isWhole) exchange.keepAlive = false;
  exchange.status = 308;
  exchange.isStarted = true;
  exchange.isAnswered = true;
  const last = lastLines(keepAliveMs(path), exchange).toString('latin1');
  const text = `HTTP/1.1 308 Permanent Redirect\r\nLocation: ${location}\r\nContent-Length: 0\r\n${last}\r\n`;
  const length = path.scratch.write(text, 0, 'latin1');
  if (!sendBytes(path, client, client, path.scratch, 0, length)) return clientLost(path, client);
  rows.bytesOut[client] += length;
  if (rows.kept[client] === undefined) finish(path, client, exchange);
  else watch(path, client, exchange);
}

/** `idle`, `halfClosed` or `stalled` may have expired. Deadlines are checked only here, not moved with every byte. */
export function exchangeTimer(path: DataPath, client: number): void {
  const { rows, io, settings } = path;
  const exchange = path.exchanges[client];
  if (exchange === undefined) return;
  const backend = rows.peer[client];
  if ((rows.flags[client] & LASTING) === 0) {
    rows.flags[client] |= LASTING;
    if (backend >= 0) io.keepAlive(backend);
  }
  const now = io.now();
  if (stalledSince(path, client, exchange) + (settings.stalledMs ?? Infinity) <= now)
    return endStalled(path, client, exchange);
  const isHalfClosed = rows.input[client] >= ENDED;
  const idle = rows.activeAt[client] + (settings.idleMs ?? Infinity);
  const halfClosed = isHalfClosed ? rows.activeAt[client] + (settings.halfClosedMs ?? Infinity) : Infinity;
  if (Math.min(idle, halfClosed) > now) return watch(path, client, exchange);
  end(path, client, halfClosed < idle ? 'half-closed-timeout' : 'idle-timeout');
}

/** Sets the timer for the earliest of the deadlines that apply now. */
function watch(path: DataPath, client: number, exchange: ExchangeState): void {
  const { rows, wheel, io, settings } = path;
  if ((rows.flags[client] & LASTING) === 0) return wheel.set(client, io.now() + LASTS_MS);
  const isHalfClosed = rows.input[client] >= ENDED;
  const deadline = Math.min(
    stalledSince(path, client, exchange) + (settings.stalledMs ?? Infinity),
    rows.activeAt[client] + (settings.idleMs ?? Infinity),
    isHalfClosed ? rows.activeAt[client] + (settings.halfClosedMs ?? Infinity) : Infinity,
  );
  if (deadline < Infinity) wheel.set(client, deadline);
}

/** Since when bytes wait to be taken, or the rest of the request does not come; Infinity if neither. */
function stalledSince({ rows }: DataPath, client: number, exchange: ExchangeState): number {
  const backend = rows.peer[client];
  const sides = backend < 0 ? [client] : [client, backend];
  const kept = sides.map(side => (rows.kept[side] === undefined ? Infinity : rows.keptAt[side]));
  const isAwaited = !exchange.isWhole && !exchange.isUnwanted && Math.min(...kept) === Infinity;
  return Math.min(...kept, isAwaited ? rows.activeAt[client] : Infinity);
}

/** A client that stopped in the middle of its request gets a refusal; others are cut off. */
function endStalled(path: DataPath, client: number, exchange: ExchangeState): void {
  const { rows } = path;
  const isRequestStalled =
    !exchange.isWhole && !exchange.isStarted && rows.kept[rows.peer[client]] === undefined;
  if (isRequestStalled) refuse(path, client, 'idle-timeout');
  else endWithReset(path, client, 'idle-timeout');
}
