// The basis of the feature tests: clients and backends with plain sockets that keep everything they receive and tell
// FIN from RST; hellos and PROXY headers as bytes; and waiting for a condition.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type ListenOptions, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { alpnExtension, helloMessage, inRecords, serverNameExtension } from '../../src/wire/hello.samples.ts';
import { parseIp } from '../../src/wire/ip-address.ts';
import { buildProxyV2, type Endpoint } from '../../src/wire/proxy-protocol.ts';
import type { Causeway, LogLine } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';

/** When a test gives up. It makes no test slower, and a busy machine may need many times as long as a quiet one. */
const WAIT_MS = 60_000;
const POLL_MS = 10;

/** How the other side ended its direction: with FIN, or by a reset of the connection. */
export type End = 'FIN' | 'RST';

/** One side of a TCP connection. It keeps everything it receives, and never closes on its own. */
export class Peer implements Disposable {
  readonly socket: Socket;
  /** Its own `host:port`, as in the gateway's log. */
  readonly address: string;
  /** Taken before it connects, in the log's format: its log line may be older than its `connect` event. */
  readonly since: string;
  #end: End | undefined;
  #chunks: Buffer[] = [];
  #length = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(socket: Socket, since = new Date().toISOString()) {
    this.socket = socket;
    this.since = since;
    this.address = place(socket.localAddress, socket.localPort);
    socket.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#length += chunk.length;
      this.#wake();
    });
    const endAs = (end: End) => () => {
      this.#end ??= end;
      this.#wake();
    };
    socket.on('end', endAs('FIN'));
    socket.on('error', endAs('RST'));
  }

  received(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0];
  }

  /** Undefined while the other side may still send. */
  end(): End | undefined {
    return this.#end;
  }

  send(...parts: readonly (string | Uint8Array)[]): void {
    this.socket.write(bytes(...parts));
  }

  /** Byte by byte, each in its own segment. */
  async drip(sent: Uint8Array): Promise<void> {
    this.socket.setNoDelay(true);
    for (const byte of sent) {
      this.socket.write(Uint8Array.of(byte));
      await delay(1);
    }
  }

  /** Sends FIN; it can still receive. */
  finish(): void {
    this.socket.end();
  }

  reset(): void {
    this.socket.resetAndDestroy();
  }

  /** Waits until it has received these bytes, or this many. */
  async receives(what: string | Uint8Array | number): Promise<Buffer> {
    const reported = typeof what === 'number' ? `${what} bytes` : bytes(what).toString('latin1');
    await this.#until(reported, () =>
      typeof what === 'number' ? this.#length >= what : this.received().includes(bytes(what)),
    );
    return this.received();
  }

  async receivesOrEnds(count: number): Promise<void> {
    await this.#until(`${count} bytes or the end`, () => this.#length >= count || this.#end !== undefined);
  }

  /** Waits for the other side's end. */
  async untilEnd(): Promise<End> {
    await this.#until('the end', () => this.#end !== undefined);
    return this.#end as End;
  }

  async #until(what: string, fits: () => boolean): Promise<void> {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.#wake();
    }, WAIT_MS);
    while (!fits()) {
      if (late || this.#end !== undefined) {
        clearTimeout(timer);
        const heard = `${this.#length} bytes and ${this.#end ?? 'no end'}`;
        throw new Error(`${this.address} waited in vain for ${what}. It received ${heard}`);
      }
      await new Promise<void>(resolve => this.#waiting.push(resolve));
    }
    clearTimeout(timer);
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

export interface ClientOptions {
  /** Loopback source address: 127.0.0.1 to 127.255.255.254 are all this machine. */
  readonly from?: string;
  readonly to?: string;
}

export async function connectClient(
  port: number,
  { from, to = '127.0.0.1' }: ClientOptions = {},
): Promise<Peer> {
  const since = new Date().toISOString();
  const socket = connect({
    port,
    host: to,
    allowHalfOpen: true,
    ...(from !== undefined && { localAddress: from }),
  });
  await once(socket, 'connect');
  return new Peer(socket, since);
}

/** Connects, sends that, and waits until the other side ends. */
export async function visit(
  port: number,
  said: string | Uint8Array,
  options?: ClientOptions,
): Promise<{
  readonly received: Buffer;
  readonly end: End;
  readonly address: string;
  readonly since: string;
}> {
  using client = await connectClient(port, options);
  client.send(said);
  const end = await client.untilEnd();
  return { received: client.received(), end, address: client.address, since: client.since };
}

/** The name of the backend that answers. The connection ends as `done`. */
export async function servedBy(
  port: number,
  said: string | Uint8Array,
  options?: ClientOptions,
): Promise<string> {
  using client = await connectClient(port, options);
  client.send(said);
  const heard = await client.receives('\n');
  client.finish();
  assert.equal(await client.untilEnd(), 'FIN');
  return heard.toString('latin1').trimEnd();
}

export interface BackendOptions {
  /** A line that it sends on every new connection; default nothing. */
  readonly name?: string;
  readonly on?: ListenOptions;
  /** Sends no greeting, and does not answer FIN with FIN. */
  readonly silent?: boolean;
}

/** A backend that keeps what each connection sends. */
export class Backend implements AsyncDisposable {
  readonly port: number;
  readonly text: string;
  readonly connections: Peer[] = [];
  readonly #server = createServer({ allowHalfOpen: true });

  private constructor(port: number, host: string, server: ReturnType<typeof createServer>) {
    this.port = port;
    this.text = place(host, port);
    this.#server = server;
  }

  static async start({ name = '', on = {}, silent = false }: BackendOptions = {}): Promise<Backend> {
    const server = createServer({ allowHalfOpen: true });
    const { host = '127.0.0.1', port = 0 } = on;
    server.listen({ host, port });
    await once(server, 'listening');
    const backend = new Backend((server.address() as { port: number }).port, host, server);
    server.on('connection', socket => {
      const peer = new Peer(socket);
      backend.connections.push(peer);
      if (silent) return;
      if (name !== '') peer.send(`${name}\n`);
      socket.on('end', () => socket.end());
    });
    return backend;
  }

  /** Waits for connection number `index`. */
  async accepted(index = 0): Promise<Peer> {
    await until(`connection ${index} of ${this.text}`, () => this.connections.length > index);
    return this.connections[index];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const peer of this.connections) peer.socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/**
 * An address at which connection attempts time out: a listener with a full queue that accepts nothing. Node accepts
 * on its own, so the listener is in a blocked thread.
 */
export async function startBlackHole(): Promise<AsyncDisposable & { readonly port: number }> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     const server = require('node:net').createServer();
     server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
     });`,
    { eval: true },
  );
  const [port] = (await once(worker, 'message')) as [number];
  const queue: Socket[] = [];
  for (let full = false; !full; ) {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.on('error', () => {});
    queue.push(socket);
    full = await Promise.race([once(socket, 'connect').then(() => false), delay(200, true)]);
  }
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of queue) socket.destroy();
      await worker.terminate();
    },
  };
}

/** A ClientHello for that host; '' for no SNI. */
export function hello(host: string, ...alpn: readonly string[]): Uint8Array {
  const extensions = [
    ...(host === '' ? [] : [serverNameExtension(host)]),
    ...(alpn.length === 0 ? [] : [alpnExtension(...alpn)]),
  ];
  return inRecords(helloMessage({ extensions }));
}

export interface HeaderOptions {
  readonly source?: string;
  /** Cluster ids, each in a TLV 0x20. */
  readonly id?: string | readonly string[];
  readonly tlvs?: readonly (readonly [type: number, value: string])[];
  readonly crc32c?: boolean;
}

/** A PROXY v2 header; LOCAL without a source. */
export function proxyV2({ source, id = [], tlvs = [], crc32c = false }: HeaderOptions): Uint8Array {
  const all = [...[id].flat().map(text => [0x20, text] as const), ...tlvs];
  return buildProxyV2({
    ...(source !== undefined && {
      source: endpoint(source, 40_000),
      destination: endpoint('172.20.0.1', 6443),
    }),
    tlvs: all.map(([type, text]) => ({ type, value: bytes(text) })),
    crc32c,
  });
}

function endpoint(address: string, port: number): Endpoint {
  const ip = parseIp(address);
  assert.ok(ip !== undefined, `not an address: ${address}`);
  return { address: ip, port };
}

export function bytes(...parts: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(parts.map(part => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)));
}

/** What a client gets whose backend cannot be reached: nothing from an engine that sends no alert then. */
export function dialAlert(): Buffer {
  return supports('dialAlerts') ? alert(80) : Buffer.alloc(0);
}

/** The record of a fatal TLS alert. */
export function alert(code: number): Buffer {
  return Buffer.from([0x15, 0x03, 0x01, 0x00, 0x02, 0x02, code]);
}

/** The log line of the connection from that address. Asserts that there is only one. */
export async function lineOf(
  gateway: Causeway,
  { address, since = '' }: { readonly address: string; readonly since?: string },
): Promise<LogLine> {
  // Another client may have used this port before.
  const fits = (line: LogLine) =>
    line.msg === 'connection' && line.peer === address && String(line.time) >= since;
  const line = await gateway.line(fits);
  assert.equal(gateway.lines().filter(fits).length, 1, `one line for ${address}`);
  return line;
}

/** Whether nothing listens there. */
export function isClosed(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('error', () => resolve(true));
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
  });
}

/** Polls until the answer is truthy. */
export async function until<T>(
  what: string,
  ask: () => T | Promise<T>,
  waitMs = WAIT_MS,
): Promise<NonNullable<T>> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (performance.now() > deadline) throw new Error(`Waited in vain for ${what}`);
    await delay(POLL_MS);
  }
}

function place(host: string | undefined, port: number | undefined): string {
  return host?.includes(':') === true ? `[${host}]:${port}` : `${host}:${port}`;
}
