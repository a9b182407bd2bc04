// Thousands of hostile connections, many at a time, while an honest client is served: each ends
// with one reason, and leaves no connection, descriptor or memory behind.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import * as tls from 'node:tls';
import type { CloseReason } from '../../src/gateway/close-reason.ts';
import { helloSamples } from '../../src/wire/hello.samples.ts';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { startGoServer } from '../../testbed/go-peer.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { bytes, hello, Peer, proxyV2, until } from '../features/given.ts';
import { type SeededRandom, seededRandom } from './seeded-random.ts';

const SEED = Number(process.env.HOSTILE_SEED ?? 1);
const CONNECTIONS = 6_000;
const AT_ONCE = 400;
const HOST = 'steady.test';
/** A connected attacker gives up after this; the gateway's time-outs end most of them earlier. */
const WAIT_MS = 30_000;
/** In `agents` and in `balancers`; others are in neither. */
const AGENT = '127.0.0.20';
const BALANCER = '127.0.0.10';
const STRANGER = '127.0.0.30';
/** Memory that is still in use: uncollected garbage and pools. */
const GROWTH_MIB = 200;

/** Reasons that so many attacks are certain to cause. */
const met: readonly CloseReason[] = [
  'bad-hello',
  'bad-proxy-header',
  'bad-request',
  'client-gone',
  'client-reset',
  'connect-failed',
  'hello-timeout',
  'no-data',
  'no-sni',
  'not-recognized',
  'unknown-cluster',
  'unknown-host',
  'untrusted-agent',
];

interface Attack {
  readonly from: string;
  readonly sends: Buffer;
  /** Bytes per write, some ms apart. Infinity: all at once. */
  readonly piece: number;
  /** What it does after the last byte. */
  readonly lastly: 'wait' | 'finish' | 'reset';
}

test(`${CONNECTIONS} hostile connections: an honest client is served, and nothing is left behind`, {
  skip: missingPrograms('openssl', 'go'),
  timeout: 600_000,
}, async context => {
  const { certFile } = await authority();
  const ca = await readFile(certFile);
  await using backend = await startGoServer(await certificateFor(HOST));
  await using gateway = await startCauseway({
    config: `
listen: [{ on: "127.0.0.1:0", balancers: [${BALANCER}/32], agents: [${AGENT}/32, 10.0.0.0/8] }]
timeouts: { hello: 3s, connect: 3s, halfClosed: 3s }
retries: 1
log: { connections: none }
clusters:
  - { name: steady, id: steady, api: { hosts: [${HOST}], backends: ["127.0.0.1:${backend.port}"] } }
  - { name: dead, api: { hosts: [dead.test], backends: ["127.0.0.1:${await freePort()}"] } }
`,
  });
  const honest = new HonestClient(gateway, ca);
  await honest.visit();
  using ping = await honest.stay();
  const before = { files: await openFiles(gateway), mib: await residentMib(gateway) };

  const over = new AbortController();
  const attack = storm(gateway.port).finally(() => over.abort());
  while (!over.signal.aborted) {
    await honest.visit();
    await ping.once();
  }
  const made = await attack;
  await ping.end();

  const open = async () =>
    ((await gateway.status()) as { counts: { connections: number } }).counts.connections;
  await until('the last of them to end', async () => (await open()) === 0);
  assert.equal(await gateway.metric('causeway_connections_active'), 0);
  await until(
    `all to be counted, seed ${SEED}`,
    async () => (await gateway.metric('causeway_connections_total')) === made + honest.visits,
  );
  // Otherwise the attack was too weak.
  for (const reason of met)
    assert.notEqual(await gateway.metric('causeway_connections_total', { reason }), 0, reason);
  await until('their descriptors to be closed', async () => (await openFiles(gateway)) <= before.files);
  const mib = await residentMib(gateway);
  context.diagnostic(
    `${made} hostile and ${honest.visits} honest connections; memory ${before.mib} MiB before, ${mib} MiB after`,
  );
  assert.ok(mib < before.mib + GROWTH_MIB, `memory grew from ${before.mib} MiB to ${mib} MiB`);
  assert.deepEqual(
    gateway.lines().filter(({ msg }) => msg === 'thread died'),
    [],
  );
});

/** Runs all attacks. Returns the number of connections. */
async function storm(port: number): Promise<number> {
  let next = 0;
  let made = 0;
  const work = async () => {
    while (next < CONNECTIONS) {
      const attack = planAttack(seededRandom(SEED, next++));
      if (await carryOut(port, attack)) made++;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return made;
}

function planAttack(random: SeededRandom): Attack {
  return {
    from: random.pick([AGENT, BALANCER, STRANGER]),
    sends: random.pick(speeches)(random),
    piece: random.chance(0.15) ? random.between(1, 50) : Number.POSITIVE_INFINITY,
    lastly: random.pick(['wait', 'finish', 'reset']),
  };
}

const junk = (random: SeededRandom, most: number) =>
  Buffer.from(Array.from({ length: random.magnitude(1, most) }, () => random.between(0, 255)));

/** Changes, drops and inserts a few bytes. */
function mutated(random: SeededRandom, original: Uint8Array): Buffer {
  let result: Buffer = Buffer.from(original);
  for (let changes = random.between(1, 8); changes > 0; changes--) {
    const at = random.between(0, Math.max(0, result.length - 1));
    const changed = random.pick([
      () => bytes(result.subarray(0, at), junk(random, 8), result.subarray(at)),
      () => bytes(result.subarray(0, at), result.subarray(at + random.between(1, 20))),
      () => bytes(result.subarray(0, at), Uint8Array.of(random.between(0, 255)), result.subarray(at + 1)),
      () => result.subarray(0, at),
    ])();
    result = changed;
  }
  return result;
}

const speeches: readonly ((random: SeededRandom) => Buffer)[] = [
  // Nothing: a silent connection.
  () => Buffer.alloc(0),
  random => junk(random, 4_000),
  random => mutated(random, random.pick(helloSamples).bytes),
  random => mutated(random, hello(HOST)),
  // A valid hello with junk for a handshake, and one to a backend that refuses.
  random => bytes(hello(HOST), junk(random, 100_000)),
  () => bytes(hello('dead.test')),
  // Records and messages that claim more than follows, or more than is allowed.
  random => bytes(Uint8Array.of(22, 3, 1, 64, 0, 1, 255, 255, 255), junk(random, 100_000)),
  random => bytes(Uint8Array.of(22, 3, random.between(0, 4), 0, 0), junk(random, 50)),
  // HTTP and CONNECT heads without an end, or too large.
  random => bytes(`GET / HTTP/1.1\r\nHost: ${'x'.repeat(random.magnitude(1, 100_000))}`),
  random => bytes(`CONNECT ${'x'.repeat(random.magnitude(1, 50_000))} HTTP/1.1\r\n\r\n`),
  random => bytes('CONNECT steady:443 HTTP/1.1\r\n\r\n', junk(random, 1_000)),
  random => mutated(random, bytes('CONNECT steady:443 HTTP/1.1\r\nHost: steady\r\n\r\n', hello(HOST))),
  // PROXY headers: too long, broken, repeated, with unknown ids.
  random => bytes('PROXY TCP4 ', 'x'.repeat(random.magnitude(1, 1_000))),
  random => mutated(random, bytes('PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n', hello(HOST))),
  random => mutated(random, bytes(proxyV2({ source: '10.0.0.1', id: 'steady', crc32c: true }), hello(HOST))),
  random =>
    bytes(proxyV2({ source: '10.0.0.1' }).subarray(0, 14), Uint8Array.of(255, 255), junk(random, 70_000)),
  random =>
    bytes(...Array.from({ length: random.between(2, 6) }, () => proxyV2({ source: '10.0.0.1', id: 'no' }))),
  // The start of a known protocol, then junk.
  random =>
    bytes(
      random.pick(['\r\n\r\n\0\r\nQUIT', 'PROXY', 'PRI * HTTP/2', '\x16\x03', 'CONNEC', 'GET']),
      junk(random, 2_000),
    ),
];

/** True if it connected. */
async function carryOut(port: number, { from, sends, piece, lastly }: Attack): Promise<boolean> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from });
  let isConnected = false;
  socket.once('connect', () => (isConnected = true));
  socket.on('error', () => {});
  socket.resume();
  const closed = new Promise(resolve => socket.once('close', resolve));
  // Not while it connects: the gateway might count a connection that this side does not know of.
  await Promise.race([once(socket, 'connect').catch(() => {}), closed]);
  const timer = setTimeout(() => socket.destroy(), WAIT_MS);
  for (let at = 0; at < sends.length && socket.writable; at += piece) {
    socket.write(sends.subarray(at, at + piece));
    if (piece < sends.length) await delay(20);
  }
  if (lastly === 'reset') socket.resetAndDestroy();
  else if (lastly === 'finish') socket.end();
  await closed;
  clearTimeout(timer);
  return isConnected;
}

/** A TLS client that trusts only the right certificate, and checks every byte. */
class HonestClient {
  visits = 0;
  readonly #gateway: Causeway;
  readonly #ca: Buffer;

  constructor(gateway: Causeway, ca: Buffer) {
    this.#gateway = gateway;
    this.#ca = ca;
  }

  /** One connection with an echo. */
  async visit(): Promise<void> {
    using client = await this.#connect();
    const said = `visit ${this.visits}\n`;
    client.send(said);
    await client.receives(said);
    client.finish();
    assert.equal(await client.untilEnd(), 'FIN');
  }

  /** A long-lived connection. */
  async stay(): Promise<Disposable & { once(): Promise<void>; end(): Promise<void> }> {
    const client = await this.#connect();
    let rounds = 0;
    return {
      async once() {
        client.send(`round ${++rounds}\n`);
        await client.receives(`round ${rounds}\n`);
      },
      async end() {
        client.finish();
        assert.equal(await client.untilEnd(), 'FIN');
      },
      [Symbol.dispose]: () => client[Symbol.dispose](),
    };
  }

  async #connect(): Promise<Peer> {
    this.visits++;
    const { port } = this.#gateway;
    const socket: Socket = tls.connect({ port, host: '127.0.0.1', servername: HOST, ca: this.#ca });
    await once(socket, 'secureConnect');
    return new Peer(socket);
  }
}

async function openFiles({ program }: Causeway): Promise<number> {
  return (await readdir(`/proc/${program.pid}/fd`)).length;
}

async function residentMib({ program }: Causeway): Promise<number> {
  const status = await readFile(`/proc/${program.pid}/status`, 'utf8');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024);
}
