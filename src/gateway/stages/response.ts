// response: the response of an HTTP exchange on its way to the client, framed as strictly as it was read. Once it is
// complete, the backend is kept for another request or closed, and the client may send its next one.

import { startChunkedBody } from '../../wire/chunked-body.ts';
import { framingOf, parseResponseHead, type ResponseHead } from '../../wire/http-response.ts';
import { AGAIN, RESET, TIMED_OUT } from '../io/reactor.ts';
import { DIALING, ENDED, HUNG, MORE, OPEN, REQUESTING } from '../shared/rows.ts';
import { copyBytes } from './copy-bytes.ts';
import type { DataPath } from './data-path.ts';
import { endInOrder, endWithReset, hangUpBackend, refuse } from './end.ts';
import { countBytes, endRequest } from './end-request.ts';
import type { ExchangeState } from './exchange-state.ts';
import { keepAliveMs, watch } from './exchange-timer.ts';
import { writeResponseHead } from './forward-headers.ts';
import { CHUNKED_READ, frameChunks, lastChunk, writeChunk } from './frame-body.ts';
import { heldBytes } from './held-bytes.ts';
import { keepBackend } from './keep-backend.ts';
import { READ_BUFFER } from './kept-buffers.ts';
import { sendBytes, takeKept } from './kept-bytes.ts';
import { lastLines } from './last-lines.ts';
import { beginTunnel } from './tunnel.ts';

/** Reads per direction before other handles get their turn. */
export const READS_PER_TURN = 2;
/** Responses are read behind this much room, so that their head, written anew, fits in front of the body. */
const ROOM = 32 * 1024;
const SWITCHING_PROTOCOLS = 101;
const BAD_GATEWAY = 502;
const MOST_DROPPED = 64;

const nothing = new Uint8Array(0);

/** Passes the response on. False when the exchange is over. */
export function pumpResponse(path: DataPath, client: number, exchange: ExchangeState): boolean {
  const { rows, io } = path;
  const backend = rows.peer[client];
  for (let reads = 0; reads < READS_PER_TURN; reads++) {
    if (rows.kept[client] !== undefined) {
      watch(path, client, exchange);
      return true;
    }
    const isFramed = exchange.status === 0 || exchange.isChunked || exchange.response.chunks !== undefined;
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
        ? readHeads(path, client, exchange, ROOM, ROOM + count)
        : passResponse(path, client, exchange, ROOM, ROOM + count, 0);
    if (!goesOn) return false;
    if ((rows.flags[backend] & MORE) === 0) return true;
  }
  path.resumeLater(backend);
  return true;
}

/** Bytes to read at a time. */
export function readSpace({ kept, io, rows }: DataPath, client: number): number {
  return Math.min(kept.readSpace(rows.cluster[client]), io.readSize);
}

/** Reads heads in [from, to) of the read buffer, with the beginning of one that is held in front of them. */
function readHeads(
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
    if (status >= 200) return beginResponse(path, client, exchange, head.value, to);
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
  if (sendBytes(path, client, client, path.scratch, 0, length) < 0) {
    clientLost(path, client);
    return false;
  }
  path.rows.bytesOut[client] += length;
  return true;
}

function beginResponse(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  head: ResponseHead,
  to: number,
): boolean {
  const framing = framingOf(head, exchange.method);
  if (framing === undefined) return backendLost(path, client, exchange);
  const { response } = exchange;
  const isLengthKnown = typeof framing.body === 'number';
  response.left = framing.body === 'until-close' ? Infinity : isLengthKnown ? (framing.body as number) : 0;
  if (framing.body === 'chunked') response.chunks = startChunkedBody();
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
  return passResponse(path, client, exchange, head.end, to, length);
}

/** Passes on the body in [from, to) of the read buffer, behind the first `front` bytes of `scratch`. */
function passResponse(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  from: number,
  to: number,
  front: number,
): boolean {
  const { rows, scratch } = path;
  const { buffer } = path.kept;
  const { response } = exchange;
  let used = to;
  let isWhole = false;
  let length = to - from + front;
  let error: number;
  if (response.chunks === undefined && !exchange.isChunked) {
    used = Math.min(to, from + response.left);
    response.left -= used - from;
    isWhole = response.left === 0;
    length = used - from + front;
    copyBytes(scratch, 0, front, buffer, from - front);
    error = sendBytes(path, client, client, buffer, from - front, used);
  } else {
    if (response.chunks === undefined) length = writeChunk(buffer, from, to, scratch, front);
    else {
      const framed = frameChunks(response, buffer, from, to, scratch, front, exchange.isChunked);
      if (framed.isBroken) return backendLost(path, client, exchange);
      ({ length, at: used, isWhole } = framed);
    }
    error = sendBytes(path, client, client, scratch, 0, length);
  }
  if (error < 0) {
    clientLost(path, client);
    return false;
  }
  rows.bytesOut[client] += length;
  countBytes(path, client, exchange);
  if (!isWhole) return true;
  responseRead(path, client, exchange, used < to);
  return false;
}

/** FIN of the backend: the end of a body without a length, else it comes too early. */
function backendEnded(path: DataPath, client: number, exchange: ExchangeState): boolean {
  if (exchange.status === 0 || exchange.response.left !== Infinity)
    return backendLost(path, client, exchange);
  const length = exchange.isChunked ? path.scratch.write(lastChunk([]), 0, 'latin1') : 0;
  if (sendBytes(path, client, client, path.scratch, 0, length) < 0) {
    clientLost(path, client);
    return false;
  }
  path.rows.bytesOut[client] += length;
  responseRead(path, client, exchange, true);
  return false;
}

/** The whole response has been read. `isMore`: bytes follow that answer no request. */
function responseRead(path: DataPath, client: number, exchange: ExchangeState, isMore: boolean): void {
  const { rows } = path;
  const backend = rows.peer[client];
  const isTaken = exchange.isWhole && !exchange.isUnwanted;
  exchange.isResponseRead = true;
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
export function finish(path: DataPath, client: number, exchange: ExchangeState): void {
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
export function repeat(path: DataPath, client: number, exchange: ExchangeState): void {
  hangUpBackend(path, client);
  exchange.mayReuse = false;
  exchange.wasReused = false;
  exchange.isUnwanted = false;
  exchange.isRepeated = true;
  path.rows.state[client] = DIALING;
  path.wheel.clear(client);
  path.resumeLater(client);
}

export function clientLost(path: DataPath, client: number, error = lossOf(path, client)): void {
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
