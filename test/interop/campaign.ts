// The byte-exactness campaign: many tunnels through one gateway, each by its plan (campaign-plan.ts), with sizes,
// pauses, half-closes, resets and slow readers. Every received byte is compared with the byte that was sent at its
// position, which says more than a hash: where the first wrong byte is, and that a stream cut by a reset
// is a prefix of what was sent.

import { createCipheriv, createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from '../features/engine.ts';
import { hello, until } from '../features/given.ts';
import {
  bytesSent,
  isReset,
  POOL_BYTES,
  planTunnel,
  type SidePlan,
  type TunnelPlan,
  type Way,
  ways,
} from './campaign-plan.ts';

export interface CampaignOptions {
  readonly seed: number;
  readonly tunnels: number;
  /** Concurrent tunnels. */
  readonly atOnce: number;
  readonly onProgress?: (ended: number) => void;
}

export interface CampaignReport {
  readonly engine: string;
  readonly seconds: number;
  /** Received bytes, both ways. */
  readonly bytes: number;
  readonly resets: number;
  /** The first faults; empty if there were none. */
  readonly faults: readonly string[];
}

const MAX_FAULTS = 20;
/** Limit for one tunnel, whose plan takes a few seconds on a quiet machine. */
const TUNNEL_MS = 300_000;
/** Size of the tunnel's number, which precedes the client's stream. */
const NUMBER_BYTES = 4;
const PROXY_V2_BYTES = 16;
const proxySignature = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
const established = Buffer.from('HTTP/1.1 200 Connection established\r\n\r\n');
const nothing = Buffer.alloc(0);

/** The client's first bytes, and the part of them that the backend receives. */
const openings: Record<Way, { readonly says: Buffer; readonly seen: Buffer }> = {
  sni: sameFor(hello('sni.test')),
  proxied: sameFor(hello('proxied.test')),
  connect: { says: Buffer.from('CONNECT connect:443 HTTP/1.1\r\n\r\n'), seen: nothing },
};

function sameFor(bytes: Uint8Array): { says: Buffer; seen: Buffer } {
  return { says: Buffer.from(bytes), seen: Buffer.from(bytes) };
}

/** Runs a campaign against its own gateway. */
export async function runCampaign(options: CampaignOptions): Promise<CampaignReport> {
  await using campaign = new Campaign(options);
  return await campaign.run();
}

/** The outcome of one side of a tunnel. */
interface Outcome {
  received: number;
  end: 'FIN' | 'RST' | undefined;
  closed: boolean;
}

interface Tunnel {
  readonly plan: TunnelPlan;
  readonly client: Outcome;
  /** Undefined until the backend knows the tunnel's number; `reached` waits for that. */
  backend: Outcome | undefined;
  readonly reached: PromiseWithResolvers<void>;
}

class Campaign implements AsyncDisposable {
  readonly #options: CampaignOptions;
  readonly #pool: Buffer;
  readonly #tunnels = new Map<number, Tunnel>();
  readonly #faults: string[] = [];
  readonly #stack = new AsyncDisposableStack();
  readonly #sockets = new Set<Socket>();
  /** Connections at the backends without a byte, from clients that reset early. */
  #silent = 0;
  #bytes = 0;

  constructor(options: CampaignOptions) {
    this.#options = options;
    this.#pool = poolOf(options.seed);
  }

  async run(): Promise<CampaignReport> {
    const { tunnels, atOnce, onProgress } = this.#options;
    const ports = await Promise.all(ways.map(way => this.#startBackend(way)));
    const clusters = ways.map(
      (way, index) =>
        `  - { name: ${way}, api: { hosts: [${way}.test], backends: ["127.0.0.1:${ports[index]}"]${way === 'proxied' ? ', proxyProtocol: v2' : ''} } }`,
    );
    const config = `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.0/8] }]
timeouts: { hello: 60s, connect: 30s }
log: { connections: refused }
clusters:
${clusters.join('\n')}
`;
    const gateway = this.#stack.use(await startCauseway({ config }));
    const { engine } = await gateway.status();
    const started = performance.now();
    let next = 0;
    let ended = 0;
    const work = async () => {
      while (next < tunnels && this.#faults.length < MAX_FAULTS) {
        await this.#visit(servedPlan(planTunnel(this.#options.seed, next++)), gateway.port);
        onProgress?.(++ended);
      }
    };
    await Promise.all(Array.from({ length: Math.min(atOnce, tunnels) }, work));
    await until('the last connections to end', () => this.#sockets.size === 0).catch(() =>
      this.#fault(undefined, `${this.#sockets.size} connections are still open`),
    );
    const seconds = (performance.now() - started) / 1000;
    const all = [...this.#tunnels.values()];
    for (const tunnel of all) this.#judge(tunnel);
    await this.#judgeCounts(all, labels => gateway.metric('causeway_connections_total', labels));
    const open = () => gateway.metric('causeway_connections_active');
    await until('no active connection', async () => (await open()) === 0).catch(async () =>
      this.#fault(undefined, `causeway_connections_active is ${await open()} in the end`),
    );
    return {
      engine: String(engine),
      seconds,
      bytes: this.#bytes,
      resets: all.filter(({ plan }) => isReset(plan)).length,
      faults: this.#faults,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await this.#stack.disposeAsync();
  }

  async #startBackend(way: Way): Promise<number> {
    const server = createServer({ allowHalfOpen: true }, socket => this.#serve(way, socket));
    await once(server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }), 'listening');
    this.#stack.defer(() => closed(server));
    return (server.address() as AddressInfo).port;
  }

  /** Runs the client's side of a tunnel until it is closed. */
  async #visit(plan: TunnelPlan, port: number): Promise<void> {
    const tunnel: Tunnel = {
      plan,
      client: newOutcome(),
      backend: undefined,
      reached: Promise.withResolvers(),
    };
    this.#tunnels.set(plan.number, tunnel);
    const { says } = openings[plan.way];
    // Many source addresses: one has too few ports.
    const localAddress = `127.0.1.${1 + (plan.number % 250)}`;
    const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true });
    const number = Buffer.alloc(NUMBER_BYTES);
    number.writeUInt32BE(plan.number);
    const first = plan.way === 'connect' ? established : nothing;
    const reader = new Reader(this.#pool, first, plan.backend.offset, plan.backend.bytes);
    const gone = this.#watch(socket, tunnel.client, reader, tunnel, plan.client);
    try {
      await once(socket, 'connect');
    } catch {
      this.#fault(plan, 'the client could not connect');
      return await gone;
    }
    await sendPieces(socket, Buffer.concat([says, number]), plan.firstPiece);
    void this.#play(tunnel, 'client', socket, tunnel.client);
    await gone;
    tunnel.reached.resolve();
  }

  /** Runs the backend's side; the tunnel's number comes first. */
  #serve(way: Way, socket: Socket): void {
    let begun: Buffer = nothing;
    const leave = () => socket.end();
    const ignore = () => {};
    const silent = () => {
      this.#sockets.delete(socket);
      this.#silent++;
    };
    this.#sockets.add(socket);
    socket.on('end', leave).on('error', ignore).on('close', silent);
    socket.on('data', (chunk: Buffer) => {
      begun = begun.length === 0 ? chunk : Buffer.concat([begun, chunk]);
      const from = way === 'proxied' ? proxyBytes(begun) : 0;
      const { seen } = openings[way];
      const at = from + seen.length;
      if (begun.length < at + NUMBER_BYTES) return;
      socket.pause();
      socket.removeAllListeners('data').off('end', leave).off('error', ignore).off('close', silent);
      const tunnel = this.#tunnels.get(begun.readUInt32BE(at));
      const isExact = begun.subarray(from, at).equals(seen);
      if (!isExact || tunnel === undefined || tunnel.plan.way !== way || tunnel.backend !== undefined) {
        this.#fault(tunnel?.plan, `a backend heard other first bytes than a client by ${way} sent`);
        this.#sockets.delete(socket);
        return void socket.on('error', ignore).destroy();
      }
      const { client, backend } = tunnel.plan;
      const reader = new Reader(this.#pool, nothing, client.offset, client.bytes);
      const outcome = newOutcome();
      tunnel.backend = outcome;
      tunnel.reached.resolve();
      void this.#watch(socket, outcome, reader, tunnel, backend);
      reader.take(begun.subarray(at + NUMBER_BYTES));
      void this.#play(tunnel, 'backend', socket, outcome);
    });
  }

  /** Reads according to the plan and records the outcome. Resolves when the socket is closed. */
  #watch(socket: Socket, outcome: Outcome, reader: Reader, tunnel: Tunnel, plan: SidePlan): Promise<void> {
    this.#sockets.add(socket);
    let sinceStop = 0;
    const timer = setTimeout(() => {
      this.#fault(tunnel.plan, `it did not end within ${TUNNEL_MS} ms`);
      socket.destroy();
    }, TUNNEL_MS);
    socket.on('data', (chunk: Buffer) => {
      reader.take(chunk);
      sinceStop += chunk.length;
      if (sinceStop < plan.stopEvery) return;
      sinceStop = 0;
      socket.pause();
      setTimeout(() => socket.resume(), plan.stopMs);
    });
    socket.pause();
    if (plan.readAfter === 0) socket.resume();
    else setTimeout(() => socket.resume(), plan.readAfter);
    socket.on('end', () => {
      outcome.end ??= 'FIN';
      // A reset that arrives as FIN.
      if (isReset(tunnel.plan) && !supports('resets')) socket.end();
    });
    socket.on('error', () => (outcome.end ??= 'RST'));
    return new Promise(resolve => {
      socket.once('close', () => {
        clearTimeout(timer);
        this.#sockets.delete(socket);
        outcome.closed = true;
        outcome.received = reader.received;
        this.#bytes += reader.received;
        if (reader.fault !== undefined) this.#fault(tunnel.plan, reader.fault);
        resolve();
      });
    });
  }

  /** Sends and ends according to the plan. */
  async #play(tunnel: Tunnel, side: 'client' | 'backend', socket: Socket, outcome: Outcome): Promise<void> {
    const { ending } = tunnel.plan;
    const other = side === 'client' ? 'backend' : 'client';
    if (ending === `${other}-first` && outcome.end === undefined) await endOf(socket);
    const isSent = await sendStream(socket, this.#pool, tunnel.plan[side], bytesSent(tunnel.plan, side));
    // The side that gets the reset stays open until then.
    if (!isSent || ending === `${other}-reset`) return;
    if (ending === `${side}-reset`) {
      outcome.end ??= 'RST';
      socket.resetAndDestroy();
      return;
    }
    // For a client that closes before the backend is connected, the dial is abandoned.
    await tunnel.reached.promise;
    const waits = side === 'client' && ending === 'together' && !supports('endsAtOnce');
    if (waits && outcome.end === undefined) await endOf(socket);
    socket.end();
  }

  /** Checks for complete streams and clean ends, or that the other side saw the reset. */
  #judge({ plan, client, backend }: Tunnel): void {
    if (!client.closed || backend?.closed === false) this.#fault(plan, 'it is still open');
    if (plan.ending === 'client-reset') {
      if (backend?.end === 'FIN' && supports('resets'))
        this.#fault(plan, "the client's reset reached the backend as FIN");
      return;
    }
    if (backend === undefined) return this.#fault(plan, 'the backend was not reached');
    if (plan.ending === 'backend-reset') {
      if (client.end === 'FIN' && supports('resets'))
        this.#fault(plan, "the backend's reset reached the client as FIN");
      return;
    }
    const found = [client.received, client.end, backend.received, backend.end].join(' ');
    const wanted = [plan.backend.bytes, 'FIN', plan.client.bytes, 'FIN'].join(' ');
    if (found !== wanted) this.#fault(plan, `it ended with ${found}, not ${wanted}`);
  }

  /** Checks that each tunnel was counted once, with its reason. */
  async #judgeCounts(
    all: readonly Tunnel[],
    count: (labels: Record<string, string>) => Promise<number>,
  ): Promise<void> {
    const ended = async (...reasons: string[]) =>
      (await Promise.all(reasons.map(reason => count({ reason })))).reduce((sum, value) => sum + value, 0);
    // HAProxy counts a connection a moment after its end.
    if (!supports('resets'))
      await until('all to be counted', async () => (await count({})) === all.length).catch(() => {});
    const planned = (fits: (plan: TunnelPlan) => boolean) => all.filter(({ plan }) => fits(plan)).length;
    const wanted = {
      done: planned(plan => !isReset(plan)),
      'client-reset': planned(plan => plan.ending === 'client-reset'),
      'backend-reset': planned(plan => plan.ending === 'backend-reset'),
    };
    const found = {
      done: await ended('done'),
      // A client that resets before the backend is connected is client-gone, or was never accepted.
      'client-reset': await ended('client-reset', 'client-gone', 'no-data'),
      'backend-reset': await ended('backend-reset'),
    };
    const isCounted = supports('resets')
      ? JSON.stringify(found) === JSON.stringify(wanted)
      : (await count({})) === all.length && found.done >= wanted.done;
    if (!isCounted)
      this.#fault(undefined, `the metrics have ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
    if (this.#silent > wanted['client-reset'])
      this.#fault(undefined, `${this.#silent} connections came to the backends and said nothing`);
  }

  #fault(plan: TunnelPlan | undefined, text: string): void {
    if (this.#faults.length >= MAX_FAULTS) return;
    const which = plan === undefined ? '' : `tunnel ${plan.number}: `;
    const how = plan === undefined ? '' : ` (${JSON.stringify(plan)})`;
    this.#faults.push(`${which}${text}${how}`);
  }
}

/** Compares received bytes with sent bytes. */
class Reader {
  received = 0;
  fault: string | undefined;
  readonly #pool: Buffer;
  readonly #offset: number;
  readonly #bytes: number;
  /** Expected bytes before the stream that have not arrived yet. */
  #first: Buffer;

  constructor(pool: Buffer, first: Buffer, offset: number, bytes: number) {
    this.#pool = pool;
    this.#first = first;
    this.#offset = offset;
    this.#bytes = bytes;
  }

  take(chunk: Buffer): void {
    if (this.fault !== undefined) return;
    const before = Math.min(this.#first.length, chunk.length);
    if (!chunk.subarray(0, before).equals(this.#first.subarray(0, before)))
      this.fault = 'other bytes came before the stream';
    this.#first = this.#first.subarray(before);
    const stream = chunk.subarray(before);
    const from = this.#offset + this.received;
    if (!stream.equals(this.#pool.subarray(from, from + stream.length))) {
      const wrong = stream.findIndex((byte, index) => byte !== this.#pool[from + index]);
      this.fault ??= `byte ${this.received + wrong} is not the one that was sent`;
    }
    this.received += stream.length;
    if (this.received > this.#bytes) this.fault ??= 'more came than was sent';
  }
}

/** Deterministic for a seed. */
function poolOf(seed: number): Buffer {
  const key = createHash('sha256').update(`campaign ${seed}`).digest().subarray(0, 16);
  return createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(POOL_BYTES));
}

/** Without CONNECT, such tunnels come by SNI. */
function servedPlan(plan: TunnelPlan): TunnelPlan {
  return plan.way === 'connect' && !supports('connect') ? { ...plan, way: 'sni' } : plan;
}

function newOutcome(): Outcome {
  return { received: 0, end: undefined, closed: false };
}

/** Length of the leading PROXY v2 header; Infinity while it is incomplete. */
function proxyBytes(begun: Buffer): number {
  if (begun.length < PROXY_V2_BYTES) return Number.POSITIVE_INFINITY;
  return begun.indexOf(proxySignature) === 0 ? PROXY_V2_BYTES + begun.readUInt16BE(14) : 0;
}

async function sendPieces(socket: Socket, bytes: Buffer, piece: number): Promise<void> {
  socket.setNoDelay(true);
  for (let at = 0; at < bytes.length; at += piece) {
    if (socket.destroyed) return;
    socket.write(bytes.subarray(at, at + piece));
    if (at + piece < bytes.length) await delay(1);
  }
}

/** False if the other side left before everything was sent. */
async function sendStream(socket: Socket, pool: Buffer, plan: SidePlan, bytes: number): Promise<boolean> {
  let writes = 0;
  for (let sent = 0; sent < bytes; ) {
    const pause = plan.pauses[writes++] ?? 0;
    if (pause > 0) await delay(pause);
    if (!socket.writable) return false;
    const size = Math.min(plan.piece, bytes - sent);
    const from = plan.offset + sent;
    if (!socket.write(pool.subarray(from, from + size)) && !(await drained(socket))) return false;
    sent += size;
  }
  return socket.writable;
}

function drained(socket: Socket): Promise<boolean> {
  return new Promise(resolve => {
    const settle = (result: boolean) => () => {
      socket.off('drain', onDrain).off('close', onClose);
      resolve(result);
    };
    const onDrain = settle(true);
    const onClose = settle(false);
    socket.once('drain', onDrain).once('close', onClose);
  });
}

function endOf(socket: Socket): Promise<void> {
  return new Promise(resolve => {
    socket.once('end', resolve).once('close', () => resolve());
  });
}

async function closed(server: Server): Promise<void> {
  server.close();
  await once(server, 'close');
}
