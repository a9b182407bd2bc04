// exchange: one HTTP request on its way to a backend, until the response is complete (response.ts). The body is framed as
// strictly as it was read; a side that takes no bytes stops the other.

import { AGAIN, FAILED, HUNG_UP, READABLE, WRITABLE } from '../io/reactor.ts';
import { BACKEND_SIDE, CLIENT_SIDE, ENDED, EXCHANGING, LASTING, MORE, OPEN } from '../shared/rows.ts';
import { copyBytes } from './copy-bytes.ts';
import type { DataPath } from './data-path.ts';
import { refuse } from './end.ts';
import { countBytes } from './end-request.ts';
import type { ExchangeState } from './exchange-state.ts';
import { keepAliveMs, LASTS_MS, watch } from './exchange-timer.ts';
import { CHUNKED_READ, frameChunks } from './frame-body.ts';
import { dropUsed, heldBytes, hold, readAhead } from './held-bytes.ts';
import { flushKept, sendBytes } from './kept-bytes.ts';
import { lastLines } from './last-lines.ts';
import { clientLost, finish, pumpResponse, READS_PER_TURN, readSpace, repeat } from './response.ts';

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
    if (flushKept(path, client) < 0) return clientLost(path, client);
    if (rows.kept[client] === undefined) {
      if (exchange.isResponseRead) return finish(path, client, exchange);
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
    if ((events & FAILED) !== 0 || flushKept(path, backend) < 0) exchange.isUnwanted = true;
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
  if (exchange.isUnwanted || sendBytes(path, path.rows.peer[client], client, bytes, from, to) === 0)
    return true;
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
  exchange.isResponseRead = true;
  const last = lastLines(keepAliveMs(path), exchange).toString('latin1');
  const text = `HTTP/1.1 308 Permanent Redirect\r\nLocation: ${location}\r\nContent-Length: 0\r\n${last}\r\n`;
  const length = path.scratch.write(text, 0, 'latin1');
  if (sendBytes(path, client, client, path.scratch, 0, length) < 0) return clientLost(path, client);
  rows.bytesOut[client] += length;
  if (rows.kept[client] === undefined) finish(path, client, exchange);
  else watch(path, client, exchange);
}
