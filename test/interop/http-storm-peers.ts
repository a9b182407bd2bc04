// Clients and servers of http-storm.test.ts. They do all that HTTP/1 and TCP allow, at random moments, and check all
// that they get. The bodies of requests look like requests to another cluster.

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type Message, readMessage } from '../../src/gateway/stages/http-messages.samples.ts';
import type { SeededRandom } from './seeded-random.ts';

export interface Storm {
  readonly random: SeededRandom;
  /** What must never happen. */
  alarm(what: string): void;
  /** What has happened, and how often. */
  count(what: string): void;
}

/** A request, as its client plans it. */
interface Planned {
  readonly number: string;
  readonly method: string;
  readonly bytes: string;
}

const SIZES = [0, 5, 36, 100, 100, 3000, 3000, 40_000, 80_000];
const SMUGGLED = '/smuggled';
/** Longer than all time-outs of the gateway. */
const STUCK_MS = 30_000;

const servings = [
  ...Array<'plainly'>(4).fill('plainly'),
  'in chunks',
  'until it closes',
  'and closes',
  'and resets',
  'a part and resets',
  'nothing and closes',
  'slowly and closes',
  'behind hints',
] as const;
/** Before it has the whole request. */
const early = ['plainly', 'and resets at once', 'and resets at once'] as const;
type Serving = (typeof servings)[number] | (typeof early)[number];

function bodyOf(number: string, size: number): string {
  const text = `<${number}>GET ${SMUGGLED} HTTP/1.1\r\nHost: b.test\r\nX-Number: ${number}\r\n\r\n`;
  return text.repeat(Math.ceil(size / text.length)).slice(0, size);
}

function inChunks(body: string, random: SeededRandom): string {
  let text = '';
  for (let at = 0; at < body.length; ) {
    const part = body.slice(at, at + random.magnitude(10, 70_000));
    text += `${part.length.toString(16)}${random.chance(0.2) ? ';x=y' : ''}\r\n${part}\r\n`;
    at += part.length;
  }
  return `${text}0\r\n\r\n`;
}

/** A server for that host. Returns its address. */
export async function startServer(host: string, storm: Storm, stack: AsyncDisposableStack): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: storm.random.chance(0.5), noDelay: true }, socket => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    serve(host, socket, storm);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function serve(host: string, socket: Socket, storm: Storm): void {
  const { random } = storm;
  let received: Buffer = Buffer.alloc(0);
  let isOver = false;
  socket.on('error', () => {});
  socket.once('end', () => socket.end());
  if (random.chance(0.02)) {
    storm.count('speaks first');
    isOver = true;
    socket.write('HTTP/1.1 503 Busy\r\nX-Number: any\r\nContent-Length: 0\r\n\r\n');
    leave(socket, random);
  }
  socket.on('data', (bytes: Buffer) => {
    if (isOver) return;
    received = Buffer.concat([received, bytes]);
    while (!isOver) {
      const request = readMessage(received, 0, () => 'none');
      if (request === undefined) return;
      if (request.isWhole) {
        received = received.subarray(request.end);
        checkRequest(host, request, storm);
        isOver = answer(socket, request, random.pick(servings), storm);
      } else {
        if (!random.chance(0.3)) return;
        answer(socket, request, random.pick(early), storm);
        isOver = true;
        setTimeout(() => leave(socket, random), random.between(0, 4));
      }
    }
  });
}

function leave(socket: Socket, random: SeededRandom): void {
  if (random.chance(0.5)) socket.end();
  else socket.resetAndDestroy();
}

function checkRequest(host: string, { line, fields, body }: Message, storm: Storm): void {
  const number = fields.get('x-number') ?? '';
  const [method, path, version] = line.split(' ');
  if (path !== `/${number}` || version !== 'HTTP/1.1') storm.alarm(`a server of ${host} was asked: ${line}`);
  if (fields.get('host') !== host) storm.alarm(`a server of ${host} was asked for ${fields.get('host')}`);
  const isWhole = body.toString('latin1') === bodyOf(number, Number(fields.get('x-size')));
  if (!isWhole) storm.alarm(`${method} ${number} has another body, of ${body.length} bytes`);
}

/** True if nothing more is served on this connection. */
function answer(socket: Socket, { line, fields, isWhole }: Message, how: Serving, storm: Storm): boolean {
  const { random } = storm;
  storm.count(how);
  const number = fields.get('x-number') ?? '';
  const size = random.pick([0, 10, 100, 1000, 1000, 20_000, 100_000]);
  const body = line.startsWith('HEAD ') ? '' : bodyOf(`answer ${number}`, size);
  const head = (...lines: string[]) =>
    [
      `HTTP/1.1 ${isWhole ? 200 : 413} Status`,
      `X-Number: ${number}`,
      `X-Size: ${size}`,
      ...lines,
      '',
      '',
    ].join('\r\n');
  const measured = `${head(`Content-Length: ${size}`)}${body}`;
  const soon = (act: () => void) => setTimeout(act, random.between(0, 3));
  switch (how) {
    case 'in chunks':
      socket.write(
        head('Transfer-Encoding: chunked') + (line.startsWith('HEAD ') ? '' : inChunks(body, random)),
      );
      return false;
    case 'until it closes':
      socket.end(head() + body);
      return true;
    case 'and closes':
      socket.end(head('Connection: close', `Content-Length: ${size}`) + body);
      return true;
    case 'and resets':
      socket.write(measured);
      soon(() => socket.resetAndDestroy());
      return true;
    case 'and resets at once':
      socket.write(measured);
      socket.resetAndDestroy();
      return true;
    case 'a part and resets':
      socket.write(measured.slice(0, random.between(1, measured.length)));
      soon(() => socket.resetAndDestroy());
      return true;
    case 'nothing and closes':
      socket.end();
      return true;
    case 'slowly and closes': {
      const half = random.between(1, measured.length);
      socket.write(measured.slice(0, half));
      soon(() => socket.end(measured.slice(half)));
      return true;
    }
    case 'behind hints':
      socket.write(`HTTP/1.1 103 Early Hints\r\nX-Number: ${number}\r\n\r\n`.repeat(random.between(1, 3)));
      break;
    default:
  }
  socket.write(measured);
  return false;
}

/** One connection with some requests, until it has all responses, leaves, or the gateway ends it. */
export async function visit(port: number, name: string, storm: Storm): Promise<void> {
  const { random } = storm;
  const requests = Array.from({ length: random.between(1, 6) }, (_, index) =>
    plan(`${name}-${index}`, random),
  );
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(() => {
    storm.alarm(`a client has waited for too long, for ${requests[answered]?.number}`);
    over.resolve();
  }, STUCK_MS);
  let received: Buffer = Buffer.alloc(0);
  let answered = 0;
  socket.on('error', () => {});
  for (const event of ['end', 'close'] as const) socket.once(event, () => over.resolve());
  socket.on('data', (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    for (;;) {
      const asked = requests[answered];
      const response = readMessage(received, 0, status =>
        asked?.method === 'HEAD' || status < 200 ? 'none' : 'close',
      );
      if (response?.isWhole !== true) break;
      received = received.subarray(response.end);
      if (response.line.startsWith('HTTP/1.1 103 ')) continue;
      checkResponse(asked, response, storm);
      if (++answered === requests.length) return over.resolve();
    }
    if (!random.chance(0.01)) return;
    socket.pause();
    setTimeout(() => socket.resume(), random.between(0, 50));
  });
  const sending = send(socket, requests, random, () => answered);
  await over.promise;
  clearTimeout(timer);
  socket.destroy();
  await sending;
}

function plan(number: string, random: SeededRandom): Planned {
  const method = random.pick(['GET', 'GET', 'HEAD', 'POST', 'POST', 'PUT']);
  const hasBody = method === 'POST' || method === 'PUT';
  const size = hasBody ? random.pick(SIZES) : 0;
  const isChunked = hasBody && random.chance(0.5);
  const body = bodyOf(number, size);
  const framing = isChunked ? ['Transfer-Encoding: chunked'] : hasBody ? [`Content-Length: ${size}`] : [];
  const host = random.pick(['a.test', 'a.test', 'b.test']);
  const lines = [`Host: ${host}`, `X-Number: ${number}`, `X-Size: ${size}`, ...framing];
  const head = [`${method} /${number} HTTP/1.1`, ...lines, '', ''].join('\r\n');
  return { number, method, bytes: head + (isChunked ? inChunks(body, random) : body) };
}

/** In pieces; the next request at once, or once the last one is answered. Some leave in the middle. */
async function send(
  socket: Socket,
  requests: readonly Planned[],
  random: SeededRandom,
  answered: () => number,
): Promise<void> {
  const isPipelining = random.chance(0.6);
  for (const [index, { bytes }] of requests.entries()) {
    const awaited = isPipelining ? 0 : index;
    while (answered() < awaited && !socket.destroyed) await tick(1);
    for (let at = 0; at < bytes.length; ) {
      if (socket.destroyed) return;
      const count = random.chance(0.7) ? bytes.length : random.magnitude(20, 60_000);
      socket.write(bytes.slice(at, at + count), 'latin1');
      at += count;
      if (random.chance(0.3)) await tick(random.between(0, 3));
      if (random.chance(0.002)) return leave(socket, random);
    }
  }
}

function tick(ms: number): Promise<void> {
  return new Promise(done => setTimeout(done, ms));
}

function checkResponse(asked: Planned | undefined, { line, fields, body }: Message, storm: Storm): void {
  const status = line.split(' ')[1];
  storm.count(status);
  if (asked === undefined) return storm.alarm(`a response that nobody asked for: ${line}`);
  const number = fields.get('x-number');
  if (number === undefined) {
    if (!/^50[234]$/.test(status)) storm.alarm(`the gateway answered ${asked.number} with ${line}`);
    return;
  }
  if (number === 'any') return;
  if (number !== asked.number) return storm.alarm(`${asked.number} got the response to ${number}`);
  if (asked.method === 'HEAD' || fields.get('x-size') === undefined) return;
  const isWhole = body.toString('latin1') === bodyOf(`answer ${number}`, Number(fields.get('x-size')));
  if (!isWhole) storm.alarm(`${number} got another body, of ${body.length} bytes`);
}
