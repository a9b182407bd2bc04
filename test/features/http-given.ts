// The basis of the tests of cleartext HTTP: a client that reads responses one by one from a plain socket, so
// that the test controls every byte; and a backend that echoes and records requests.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, afterEach } from 'node:test';
import { type Causeway, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import { type Backend, type ClientOptions, connectClient, type End, type Peer, until } from './given.ts';

export interface Answer {
  readonly status: number;
  /** The whole head. */
  readonly head: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly trailers: string;
}

/** How an HttpBackend describes a request by default. */
export interface Echo {
  readonly backend: string;
  /** The number of the connection, counted from 1. */
  readonly connection: number;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly trailers: Readonly<Record<string, string>>;
}

/** A client on one connection. It knows how responses are framed, and nothing else of HTTP. */
export class HttpClient implements Disposable {
  readonly peer: Peer;
  #read = 0;

  constructor(peer: Peer) {
    this.peer = peer;
  }

  static async connect(port: number, options?: ClientOptions): Promise<HttpClient> {
    return new HttpClient(await connectClient(port, options));
  }

  get address(): string {
    return this.peer.address;
  }

  get since(): string {
    return this.peer.since;
  }

  send(...parts: readonly (string | Uint8Array)[]): void {
    this.peer.send(...parts);
  }

  /** Sends a GET with these header lines, without waiting. */
  ask(host: string, path = '/', ...lines: readonly string[]): void {
    this.send(request(`GET ${path} HTTP/1.1`, `Host: ${host}`, ...lines));
  }

  async get(host: string, path = '/', ...lines: readonly string[]): Promise<Answer> {
    this.ask(host, path, ...lines);
    return this.answer();
  }

  /** Sends a GET and returns the echo of an HttpBackend. */
  async echo(host: string, path = '/', ...lines: readonly string[]): Promise<Echo> {
    return echoOf(await this.get(host, path, ...lines));
  }

  /** Waits for the next complete response. */
  async answer(method = 'GET'): Promise<Answer> {
    for (;;) {
      const heard = this.peer.received().subarray(this.#read);
      const found = parseAnswer(heard, method, this.peer.end() === 'FIN');
      if (found !== undefined) {
        this.#read += found.length;
        return found.answer;
      }
      if (this.peer.end() !== undefined)
        throw new Error(`An answer ended early:\n${heard.toString('latin1')}`);
      await this.peer.receivesOrEnds(this.peer.received().length + 1);
    }
  }

  /** The next response. Asserts that only FIN follows. */
  async lastAnswer(method = 'GET'): Promise<Answer> {
    const answer = await this.answer(method);
    assert.deepEqual([await this.ended(), this.rest().toString('latin1')], ['FIN', '']);
    if (!supports('endsFirst')) this.peer.finish();
    return answer;
  }

  /** Received bytes that were not read as a response. */
  rest(): Buffer {
    return this.peer.received().subarray(this.#read);
  }

  async ended(): Promise<End> {
    return this.peer.untilEnd();
  }

  [Symbol.dispose](): void {
    this.peer[Symbol.dispose]();
  }
}

/** Lines with CRLF, and the blank line. */
export function request(...lines: readonly string[]): string {
  return `${lines.join('\r\n')}\r\n\r\n`;
}

export function echoOf({ status, head, body }: Answer): Echo {
  assert.equal(status, 200, `${head}${body}`);
  return JSON.parse(body.toString()) as Echo;
}

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

export interface HttpBackendOptions {
  readonly host?: string;
  readonly port?: number;
  /** Handlers by path, without the query. Other requests are echoed. */
  readonly on?: Readonly<Record<string, Handler>>;
  readonly upgrade?: (request: IncomingMessage, socket: Socket, head: Buffer) => unknown;
}

/** A backend that echoes requests. */
export class HttpBackend implements AsyncDisposable {
  readonly name: string;
  readonly port: number;
  readonly text: string;
  /** `METHOD url` of each request, in order of arrival. */
  readonly asked: string[] = [];
  /** All its connections so far. */
  readonly sockets: Socket[] = [];
  readonly server: Server;

  private constructor(name: string, server: Server) {
    const { address, port } = server.address() as AddressInfo;
    this.name = name;
    this.port = port;
    this.text = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
    this.server = server;
  }

  static async start(name: string, options: HttpBackendOptions = {}): Promise<HttpBackend> {
    const { host = '127.0.0.1', port = 0, on = {}, upgrade } = options;
    const server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 60_000 });
    // Before any request can arrive.
    await once(server.listen(port, host), 'listening');
    const backend = new HttpBackend(name, server);
    server.on('connection', socket => {
      backend.sockets.push(socket);
      socket.on('error', () => {});
    });
    const serve = (request: IncomingMessage, response: ServerResponse) => {
      backend.asked.push(`${request.method} ${request.url}`);
      const handler = on[request.url?.split('?')[0] ?? ''];
      void (handler ?? ((one, other) => backend.#echo(one, other)))(request, response);
    };
    server.on('request', serve);
    if (on.continue !== undefined) server.on('checkContinue', on.continue);
    if (upgrade !== undefined)
      server.on('upgrade', (asked, socket, head) => {
        backend.asked.push(`${asked.method} ${asked.url}`);
        upgrade(asked, socket as Socket, head);
      });
    return backend;
  }

  async #echo(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    const echo: Echo = {
      backend: this.name,
      connection: this.sockets.indexOf(request.socket),
      method: request.method ?? '',
      url: request.url ?? '',
      headers: Object.fromEntries(
        Object.entries(request.headersDistinct).map(([name, values]) => [name, (values ?? []).join(' | ')]),
      ),
      body,
      trailers: request.trailers as Record<string, string>,
    };
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(echo));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }
}

/** Resources of one test file, disposed after its tests. */
export function sharedStack(): AsyncDisposableStack {
  const stack = new AsyncDisposableStack();
  after(() => stack.disposeAsync());
  return stack;
}

/** The gateway that the tests share, and its clients. After each test it must have no dead thread and no fault. */
export async function sharedGateway(stack: AsyncDisposableStack, config: string) {
  const gateway = stack.use(await startCauseway({ config }));
  afterEach(() => {
    assertAlive(gateway);
    assert.deepEqual(
      gateway.lines().filter(({ msg }) => msg === 'fault'),
      [],
    );
  });
  return { gateway, client: (options?: ClientOptions) => HttpClient.connect(gateway.port, options) };
}

/** A silent backend's side of the request that is sent now: its next connection, with the head. */
export async function servedBy(raw: Backend, ask: () => unknown): Promise<Peer> {
  const index = raw.connections.length;
  ask();
  const served = await raw.accepted(index);
  await served.receives('\r\n\r\n');
  return served;
}

/** Waits for this many log lines of requests from that address. */
export async function requestLines(
  gateway: Causeway,
  { address, since = '' }: { readonly address: string; readonly since?: string },
  count: number,
): Promise<LogLine[]> {
  // Another client may have used this port before.
  const found = () =>
    gateway
      .lines()
      .filter(({ msg, client, time }) => msg === 'request' && client === address && String(time) >= since);
  await until(`${count} request lines of ${address}`, () => found().length >= count);
  assert.equal(found().length, count);
  return found();
}

/** Asserts that no thread has died. */
export function assertAlive(gateway: Causeway): void {
  assert.deepEqual(
    gateway.lines().filter(({ msg }) => msg === 'thread died'),
    [],
  );
}

/** Waits until no request and no connection is open. */
export async function untilIdle(gateway: Causeway): Promise<void> {
  await until(
    'nothing to be active',
    async () => (await gateway.metric('causeway_connections_active')) === 0,
  );
}

function parseAnswer(
  heard: Buffer,
  method: string,
  isEnd: boolean,
): { readonly answer: Answer; readonly length: number } | undefined {
  const blank = heard.indexOf('\r\n\r\n');
  if (blank < 0) return undefined;
  const head = heard.toString('latin1', 0, blank + 4);
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
  const headers: Record<string, string> = {};
  for (const line of head.split('\r\n').slice(1, -2)) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    headers[name] = headers[name] === undefined ? value : `${headers[name]} | ${value}`;
  }
  const from = blank + 4;
  const whole = (body: Buffer, length: number, trailers = '') => ({
    answer: { status, head, headers, body, trailers },
    length,
  });
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304)
    return whole(Buffer.alloc(0), from);
  if (headers['transfer-encoding'] === 'chunked') {
    const found = parseChunks(heard, from);
    return found && whole(found.body, found.end, found.trailers);
  }
  if (headers['content-length'] !== undefined) {
    const to = from + Number(headers['content-length']);
    return heard.length < to ? undefined : whole(heard.subarray(from, to), to);
  }
  return isEnd ? whole(heard.subarray(from), heard.length) : undefined;
}

function parseChunks(
  heard: Buffer,
  from: number,
): { readonly body: Buffer; readonly trailers: string; readonly end: number } | undefined {
  const chunks: Buffer[] = [];
  for (let at = from; ; ) {
    const line = heard.indexOf('\r\n', at);
    if (line < 0) return undefined;
    const size = Number.parseInt(heard.toString('latin1', at, line), 16);
    assert.ok(Number.isFinite(size), heard.toString('latin1', at, line));
    if (size === 0) {
      const end = heard.indexOf('\r\n\r\n', line);
      if (end < 0) return undefined;
      return { body: Buffer.concat(chunks), trailers: heard.toString('latin1', line + 2, end), end: end + 4 };
    }
    if (heard.length < line + 2 + size + 2) return undefined;
    chunks.push(heard.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
}
