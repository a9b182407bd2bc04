// The basis of the agent tests: a gateway with a tunnel, secrets and two clusters; keys and certificates as files;
// and connections over each uplink, from a client of the agent to a backend of the gateway.

import { once } from 'node:events';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as tlsConnect, createServer as tlsServer } from 'node:tls';
import { clusterKey } from '../../src/identity/cluster-key.ts';
import { authority, type Certificate, certificateFor } from '../../testbed/certificates.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { supports } from './engine.ts';
import { hello, until } from './given.ts';

export const SECRET = 'a secret for tests, of at least 32 bytes';
export const TUNNEL_HOST = 'tunnel.example.com';
/** Also a tunnel host, but the certificate there does not have this name. */
export const MISNAMED_HOST = 'misnamed.example.com';
export const API_HOST = 'api.a.test';
/** The id of a HyperShift cluster: it makes a header of 67 bytes. */
export const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
export const OTHER_ID = 'other-1';

export const uplinks = ['proxy', 'connect', 'tunnel', 'terminate'] as const;
export type Uplink = (typeof uplinks)[number];

/** Both ends of one connection. */
export interface Ends extends Disposable {
  readonly client: Duplex;
  readonly backend: Duplex;
  /** Sends RST from that end. */
  resetClient(): void;
  resetBackend(): void;
}

function signedUplinks(dir: TempDir): string {
  return `
identity: { secretFile: ${dir.file('secret')} }
tunnel:
  hosts: [${TUNNEL_HOST}, ${MISNAMED_HOST}]
  certificates: [{ certFile: ${dir.file('tunnel.crt')}, keyFile: ${dir.file('tunnel.key')} }]
`;
}

export class World implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly dir: TempDir;
  readonly gateway: Causeway;
  /** The backend of all uplinks but terminate, whose backend is `tls`. */
  readonly plain: SilentBackend;
  readonly tls: SilentBackend;
  readonly caFile: string;
  /** The open() in progress: two at once could not be told apart at the backend. */
  #opening: Promise<unknown> = Promise.resolve();

  private constructor(
    dir: TempDir,
    gateway: Causeway,
    plain: SilentBackend,
    tls: SilentBackend,
    caFile: string,
    stack: AsyncDisposableStack,
  ) {
    this.dir = dir;
    this.gateway = gateway;
    this.plain = plain;
    this.tls = tls;
    this.caFile = caFile;
    this.#stack = stack;
  }

  static async start({ hello = '1m' } = {}): Promise<World> {
    await using stack = new AsyncDisposableStack();
    const dir = stack.use(await tempDir());
    const plain = stack.use(await SilentBackend.start());
    const tls = stack.use(await SilentBackend.startTls(API_HOST, '127.0.0.1'));
    await writeFile(dir.file('secret'), `${SECRET}\n`);
    for (const [id, name] of [
      [ID, 'key'],
      [OTHER_ID, 'other.key'],
    ] as const)
      await writeKey(dir.file(name), id);
    const { certFile, keyFile } = await certificateFor(TUNNEL_HOST);
    await copyFile(certFile, dir.file('tunnel.crt'));
    await copyFile(keyFile, dir.file('tunnel.key'));
    const gateway = stack.use(
      await startCauseway({
        config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }, { on: "127.0.0.2:0" }]
workers: 2
timeouts: { hello: ${hello} }
${supports('signatures') ? signedUplinks(dir) : ''}
clusters:
  - { name: a, id: ${ID}, api: { hosts: [a.test], backends: ["127.0.0.1:${plain.port}"] }, routes: { opened: { hosts: [${API_HOST}], backends: ["127.0.0.1:${tls.port}"] } } }
  - { name: other, id: ${OTHER_ID},${supports('signatures') ? ' identity: required,' : ''} api: { hosts: [other.test], backends: ["127.0.0.1:${plain.port}"] } }
`,
      }),
    );
    const caFile = (await authority()).certFile;
    return new World(dir, gateway, plain, tls, caFile, stack.move());
  }

  /** The flags that the uplink needs besides the address. */
  async flags(uplink: Uplink, { signed = uplink === 'tunnel' } = {}): Promise<string[]> {
    const shown = await certificateFor('127.0.0.1', 'kubernetes.default.svc');
    return [
      ...(signed ? ['--key-file', this.dir.file('key')] : []),
      ...(uplink === 'tunnel' ? ['--server-name', TUNNEL_HOST, '--ca-file', this.caFile] : []),
      ...(uplink === 'terminate'
        ? ['--server-name', API_HOST, '--ca-file', this.caFile]
            .concat(['--cert-file', shown.certFile])
            .concat(['--cert-key-file', shown.keyFile])
        : []),
    ];
  }

  async agent(
    uplink: Uplink,
    { signed, args = [], id = ID }: { signed?: boolean; args?: readonly string[]; id?: string } = {},
  ): Promise<RunningAgent> {
    const flags = await this.flags(uplink, { ...(signed !== undefined && { signed }) });
    const gateway = `127.0.0.1:${this.gateway.port}`;
    return startAgent({ uplink, gateway, id, args: [...flags, ...args] });
  }

  /** Opens a connection through the agent, with TLS at both ends for terminate, else with a hello first. Serialised. */
  async open(uplink: Uplink, agent: RunningAgent): Promise<Ends> {
    const opened = this.#opening.then(() => this.#open(uplink, agent));
    this.#opening = opened.catch(() => {});
    return opened;
  }

  async #open(uplink: Uplink, agent: RunningAgent): Promise<Ends> {
    const end = uplink === 'terminate' ? this.tls : this.plain;
    const before = end.accepted.length;
    const raw = connect({ port: agent.port, host: '127.0.0.1', allowHalfOpen: true });
    raw.on('error', () => {});
    await once(raw, 'connect');
    let client: Duplex = raw;
    if (uplink === 'terminate') {
      const tls = tlsConnect({ socket: raw, ca: await readFile(this.caFile), host: '127.0.0.1' });
      tls.on('error', () => {});
      await once(tls, 'secureConnect').catch(error => {
        throw new Error(`TLS with the agent failed. It printed:\n${agent.program.log()}`, { cause: error });
      });
      client = tls;
    } else {
      raw.write(hello(''));
    }
    // Only with bytes: a stray connection of another test may reach this port, which was reused.
    const accepted = await until('the backend', () =>
      end.accepted.slice(before).find(({ stream }) => uplink === 'terminate' || stream.readableLength > 0),
    );
    return {
      client,
      backend: accepted.stream,
      resetClient: () => raw.resetAndDestroy(),
      resetBackend: () => accepted.raw.resetAndDestroy(),
      [Symbol.dispose]() {
        raw.destroy();
        accepted.raw.destroy();
      },
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/**
 * Programs for a series of tests. The next two start while a test runs, because starting takes most of its time.
 * A test may dispose the one it took.
 */
export class StartedAhead<Started extends AsyncDisposable> implements AsyncDisposable {
  readonly #starts: readonly (() => Promise<Started>)[];
  readonly #started = new Map<number, Promise<Started>>();

  constructor(starts: readonly (() => Promise<Started>)[]) {
    this.#starts = starts;
  }

  take(index: number): Promise<Started> {
    for (const at of [index, index + 1, index + 2]) {
      if (at >= this.#starts.length || this.#started.has(at)) continue;
      const start = this.#starts[at]();
      // The test that takes it gets the failure.
      start.catch(() => {});
      this.#started.set(at, start);
    }
    return this.#started.get(index) as Promise<Started>;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const result of await Promise.allSettled(this.#started.values()))
      if (result.status === 'fulfilled') await result.value[Symbol.asyncDispose]();
  }
}

/** Writes the key of that cluster's agent. */
export async function writeKey(path: string, id: string, secret = SECRET): Promise<void> {
  await writeFile(path, `${Buffer.from(clusterKey(Buffer.from(secret), id)).toString('base64url')}\n`);
}

interface Accepted {
  readonly raw: Socket;
  readonly stream: Duplex;
}

/** A silent backend that keeps its connections. */
export class SilentBackend implements AsyncDisposable {
  readonly accepted: Accepted[] = [];
  readonly port: number;
  readonly #close: () => Promise<void>;

  private constructor(port: number, close: () => Promise<void>) {
    this.port = port;
    this.#close = close;
  }

  static async start(port = 0, host = '127.0.0.1'): Promise<SilentBackend> {
    const sockets = new Set<Socket>();
    const server = createServer({ allowHalfOpen: true }).listen(port, host);
    await once(server, 'listening');
    const end = new SilentBackend((server.address() as AddressInfo).port, async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    });
    server.on('connection', socket => {
      sockets.add(socket);
      socket.on('error', () => {});
      end.accepted.push({ raw: socket, stream: socket });
    });
    return end;
  }

  static async startTls(...names: [string, ...string[]]): Promise<SilentBackend> {
    return SilentBackend.startTlsWith(await certificateFor(...names), 'h2', 'http/1.1');
  }

  static async startTlsWith(
    { certFile, keyFile }: Certificate,
    ...alpn: readonly string[]
  ): Promise<SilentBackend> {
    const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
    const sockets = new Set<Socket>();
    const raws: Socket[] = [];
    const server = tlsServer({ cert, key, allowHalfOpen: true, ALPNProtocols: [...alpn] });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const end = new SilentBackend((server.address() as AddressInfo).port, async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    });
    server.on('connection', (socket: Socket) => {
      sockets.add(socket);
      raws.push(socket);
      socket.on('error', () => {});
    });
    server.on('tlsClientError', () => {});
    server.on('secureConnection', socket => {
      socket.on('error', () => {});
      const raw = raws.find(one => one.remotePort === socket.remotePort) ?? socket;
      end.accepted.push({ raw, stream: socket });
    });
    return end;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close();
  }
}
