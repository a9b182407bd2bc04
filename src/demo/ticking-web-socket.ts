// The server side of a WebSocket (RFC 6455) that only sends: one text per second until the client closes. Implements
// just enough of the protocol: the handshake, outgoing frames, and answers to Close and Ping.

import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

/** RFC 6455, section 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const TICK_MS = 1000;
const TEXT = 0x1;
const CLOSE = 0x8;
const PING = 0x9;
const PONG = 0xa;
/** Longer texts would need an extended length field; control frames are never longer (section 5.5). */
const MAX_SHORT = 125;
const MASK = 4;

/** Takes over the connection of an upgrade request. `text` is called with the number of the tick, from 1. */
export function tickingWebSocket(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  text: (tick: number) => string,
): void {
  const key = request.headers['sec-websocket-key'];
  socket.on('error', () => {});
  if (request.headers.upgrade?.toLowerCase() !== 'websocket' || key === undefined) {
    socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    return;
  }
  socket.write(
    [
      'HTTP/1.1 101 Switching Protocols',
      'Upgrade: websocket',
      'Connection: Upgrade',
      `Sec-WebSocket-Accept: ${webSocketAccept(key)}`,
      '\r\n',
    ].join('\r\n'),
  );
  let tick = 0;
  const send = () => socket.write(frame(TEXT, Buffer.from(text(++tick))));
  send();
  const timer = setInterval(send, TICK_MS);
  socket.once('close', () => clearInterval(timer));
  listen(socket, head);
}

/** The Sec-WebSocket-Accept value for a client's key. */
export function webSocketAccept(key: string): string {
  return createHash('sha1').update(`${key}${GUID}`).digest('base64');
}

/** The texts of all complete frames from a server. */
export function readTextFrames(bytes: Buffer): string[] {
  const texts: string[] = [];
  for (let at = 0; at + 2 <= bytes.length; ) {
    const end = at + 2 + bytes[at + 1];
    if (end > bytes.length) break;
    texts.push(bytes.toString('utf8', at + 2, end));
    at = end;
  }
  return texts;
}

function frame(opcode: number, payload: Buffer): Buffer {
  if (payload.length > MAX_SHORT) throw new RangeError(`A frame has at most ${MAX_SHORT} bytes`);
  return Buffer.concat([Buffer.from([0x80 | opcode, payload.length]), payload]);
}

/** Answers control frames. Cuts off a client that sends longer frames. */
function listen(socket: Duplex, head: Buffer): void {
  let held = head;
  const read = () => {
    while (held.length >= 2) {
      const length = held[1] & 0x7f;
      const end = 2 + MASK + length;
      if (length > MAX_SHORT) return void socket.destroy();
      if (held.length < end) return;
      answer(socket, held[0] & 0x0f, unmask(held.subarray(2, end)));
      held = held.subarray(end);
    }
  };
  read();
  socket.on('data', (chunk: Buffer) => {
    held = Buffer.concat([held, chunk]);
    read();
  });
  socket.on('end', () => socket.end());
}

function answer(socket: Duplex, opcode: number, payload: Buffer): void {
  if (opcode === PING) socket.write(frame(PONG, payload));
  if (opcode === CLOSE) socket.end(frame(CLOSE, payload));
}

function unmask(masked: Buffer): Buffer {
  return Buffer.from(masked.subarray(MASK).map((byte, index) => byte ^ masked[index % MASK]));
}
