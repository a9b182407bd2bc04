// Threads of every kind die at random moments, under load and constant table changes. Connections on other threads
// are served, and at the end every place, counter and descriptor is back to its initial value.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Agent, createServer, request } from 'node:http';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as tls from 'node:tls';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../../src/cluster/clusters.samples.ts';
import { closeReasons } from '../../src/gateway/close-reason.ts';
import { startSampleGateway } from '../../src/gateway/control/gateway.samples.ts';
import type { Gateway } from '../../src/gateway/control/gateway.ts';
import type { EngineName } from '../../src/gateway/io/open-reactor.ts';
import { ACTIVE_AT } from '../../src/gateway/shared/shared-memory.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../src/wire/hello.samples.ts';
import { certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';

/** Per engine; longer by hand. */
const SECONDS = Number(process.env.CAUSEWAY_CHAOS_SECONDS ?? 60);
const WAIT_MS = 60_000;
/** How long the next thread to be killed waits for something to be served. */
const PATIENCE_MS = 5000;
/** How long it may take until all connections of an attempt are open, and how many attempts there are. */
const ALL_OPEN_MS = 15_000;
const ATTEMPTS = 3;
const PLACES = 200;
/** Per source, counted over all workers before a connection is routed. */
const PENDING = 100;
/** RFC 8446 5.1: the first byte of a refusal. */
const ALERT = 0x15;

const engine = (process.env.CAUSEWAY_TEST_ENGINE ?? 'epoll') as EngineName;
const hello = inRecords(helloMessage({ extensions: [serverNameExtension('api.a.lab')] }));
const threads = ['worker', 'stream', 'health'] as const;

function portOf(gateway: Gateway): number {
  return Number(gateway.listeners[0].address.split(':').at(-1));
}

function connect(gateway: Gateway): net.Socket {
  return net.connect(portOf(gateway), '127.0.0.1').on('error', () => {});
}

/** The inodes of this process's sockets. */
function openSockets(): string[] {
  return readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1] ?? [];
    } catch {
      // Closed in the meantime.
      return [];
    }
  });
}

/** Addresses and states of those sockets, as the kernel lists them. */
function describeSockets(inodes: readonly string[]): string {
  const lines = ['tcp', 'tcp6', 'unix'].flatMap(table =>
    readFileSync(`/proc/net/${table}`, 'latin1').trim().split('\n'),
  );
  return inodes.map(inode => lines.find(line => line.split(/\s+/).includes(inode)) ?? inode).join('\n');
}

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `waited in vain for ${what}`);
    await sleep(20);
  }
}

/** An echo connection: its bytes come back in order, or it ends. Returns whether it was served. */
async function visitTls(gateway: Gateway): Promise<boolean> {
  const socket = connect(gateway);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const bytes = Buffer.concat([hello, Buffer.from(`${Math.random()}`.repeat(50))]);
  socket.write(bytes);
  // Not once(): it rejects on an error.
  const closed = new Promise<void>(ended => socket.once('close', () => ended()));
  const { promise: whole, resolve } = Promise.withResolvers<void>();
  socket.on('data', () => Buffer.concat(chunks).length >= bytes.length && resolve());
  await Promise.race([closed, whole]);
  const received = Buffer.concat(chunks);
  socket.destroy();
  if (received[0] === ALERT) return false;
  assert.ok(bytes.subarray(0, received.length).equals(received), 'other bytes came back than were sent');
  return received.length === bytes.length;
}

async function visitHttp(gateway: Gateway, agent: Agent | undefined): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const headers = { Host: 'web.a.lab' };
  const asked = request({ port: portOf(gateway), host: '127.0.0.1', agent, headers }, response => {
    response.resume();
    response.once('close', () => resolve(response.statusCode === 200));
  });
  asked.on('error', () => resolve(false)).end();
  return promise;
}

async function visitTunnel(gateway: Gateway): Promise<boolean> {
  const socket = tls.connect({
    port: portOf(gateway),
    host: '127.0.0.1',
    servername: 'tunnel.lab',
    ALPNProtocols: ['causeway/1'],
    rejectUnauthorized: false,
  });
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once('secureConnect', () => resolve(true));
  socket.on('error', () => {});
  socket.once('close', () => resolve(false));
  const served = await promise;
  socket.destroy();
  return served;
}

function pick<T>(items: readonly T[]): T {
  return items[Math.floor(Math.random() * items.length)];
}

function active(gateway: Gateway): number {
  let sum = 0;
  for (const { get } of gateway.routes()) sum += get(ACTIVE_AT);
  return sum;
}

test(`threads that die at random under load and edits leave nothing behind (${SECONDS} s)`, {
  skip: missingPrograms('openssl'),
  timeout: (SECONDS + 600) * 1000,
}, async t => {
  await using stack = new AsyncDisposableStack();
  const echo = net.createServer({ allowHalfOpen: true }, socket => socket.on('error', () => {}).pipe(socket));
  const web = createServer((_, response) => response.end('served'));
  stack.defer(() => void web.close().closeAllConnections());
  stack.defer(() => void echo.close());
  for (const server of [echo, web]) await once(server.listen(0, '127.0.0.1'), 'listening');
  const at = (server: net.Server | typeof web) => `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
  const cluster = sampleCluster('a', {
    limits: { connections: PLACES, perSource: PLACES },
    routes: [
      sampleRoute({ hosts: ['api.a.lab'], backends: [at(echo)] }),
      sampleRoute({ kind: 'apps-http', hosts: ['web.a.lab'], backends: [at(web)] }),
    ],
  });
  const { certFile, keyFile } = await certificateFor('tunnel.lab');
  const certificates = [{ cert: await readFile(certFile, 'latin1'), key: await readFile(keyFile, 'latin1') }];
  const sample = stack.use(
    await startSampleGateway(engine, {
      clusters: [cluster],
      // On a busy machine the silent connections at the end would otherwise be gone before one more comes.
      settings: { perSource: 2 * PLACES, pending: PENDING, retries: 3, helloMs: 30_000 },
      // With the real back-off, this test would mostly wait.
      backOff: count => Math.min(count, 5) * 20,
    }),
  );
  const { gateway, deaths, causes, records } = sample;
  const config = {
    ...sample.config,
    tls: { kind: 'tunnel-end' as const, hosts: ['tunnel.lab'], certificates },
  };
  await gateway.apply(config);

  /** Asserts that every thread works: this many consecutive connections are served. */
  const isWell = async () => {
    for (let visit = 0; visit < 8; visit++) {
      if (!(await visitTls(gateway))) return false;
      if (!(await visitHttp(gateway, undefined))) return false;
      if (!(await visitTunnel(gateway))) return false;
    }
    return true;
  };
  const isIdle = () => gateway.connections === 0 && active(gateway) === 0;
  await until('everything to work', isWell);
  await until('nothing to be open', isIdle);
  await sleep(300);
  const atRest = openSockets().length;

  const stop = AbortSignal.timeout(SECONDS * 1000);
  const served = { tls: 0, http: 0, kept: 0, tunnel: 0, edits: 0 };
  const agent = new Agent({ keepAlive: true, maxSockets: 10 });
  const repeat = (count: number, work: () => Promise<unknown>) =>
    Array.from({ length: count }, async () => {
      while (!stop.aborted) await work();
    });
  await Promise.all([
    ...repeat(10, async () => (served.tls += Number(await visitTls(gateway)))),
    ...repeat(5, async () => (served.http += Number(await visitHttp(gateway, undefined)))),
    ...repeat(5, async () => (served.kept += Number(await visitHttp(gateway, agent)))),
    ...repeat(2, async () => (served.tunnel += Number(await visitTunnel(gateway)))),
    // Clients that reset in the middle, and some that never send a byte.
    ...repeat(3, async () => {
      const socket = connect(gateway);
      if (Math.random() < 0.7) socket.write(hello.subarray(0, Math.ceil(Math.random() * hello.length)));
      await sleep(Math.random() * 30);
      socket.resetAndDestroy();
    }),
    ...repeat(1, async () => {
      const more: Cluster[] = Array.from({ length: Math.floor(Math.random() * 40) }, (_, i) =>
        sampleCluster(`x${i}`, { routes: [sampleRoute({ hosts: [`x${i}.lab`] })] }),
      );
      const extra = { ...config.listeners[0], on: '127.0.0.2:0', host: '127.0.0.2' };
      const listeners = Math.random() < 0.3 ? [...config.listeners, extra] : config.listeners;
      await gateway.apply({ ...config, listeners, clusters: [cluster, ...more] });
      served.edits++;
      await sleep(50);
    }),
    ...repeat(1, async () => {
      await sleep(Math.random() * 400);
      // On a busy machine threads restart slowly: killed at the same pace, they would never serve anything.
      const [visits, late] = [
        pick(['tls', 'http', 'kept', 'tunnel'] as const),
        performance.now() + PATIENCE_MS,
      ];
      const before = served[visits];
      while (served[visits] === before && performance.now() < late) await sleep(5);
      const kind = pick(threads);
      if (kind === 'health') gateway.killWorker('health');
      else gateway.killWorker(Math.floor(Math.random() * 2), kind);
    }),
  ]);
  agent.destroy();
  const figures = JSON.stringify({ ...served, deaths: deaths.length });
  for (const cause of causes) assert.match(cause.message, /ended with exit code [01]$/, String(cause.stack));
  // Little, for a busy machine: that it happened at all, and more than once.
  for (const count of [deaths.length, ...Object.values(served)]) assert.ok(count > 1, figures);

  await gateway.apply(config);
  await until('everything to work again', isWell);
  await until('nothing to be open again', isIdle);
  /**
   * Counts are exact again: as many as the limit are served, and not one more. Tried again where it fails, since a count
   * that has drifted stays wrong, while a thread that dies late, or a lost connection, spoils one attempt only.
   */
  const isExact = async (limit: number, open: () => net.Socket | Promise<net.Socket>) => {
    const faults: string[] = [];
    while (faults.length < ATTEMPTS) {
      gateway.takeRecords();
      const [recorded, before] = [records.length, deaths.length];
      const held: net.Socket[] = [];
      while (held.length < limit) held.push(await open());
      const late = performance.now() + ALL_OPEN_MS;
      while (gateway.connections !== limit && performance.now() < late) await sleep(20);
      const count = gateway.connections;
      const isOneMore = await visitTls(gateway);
      const closed = held.filter(socket => socket.closed).length;
      for (const socket of held) socket.destroy();
      await until('the places to be free', isIdle);
      if (deaths.length > before) continue;
      if (count === limit && !isOneMore) break;
      gateway.takeRecords();
      const ends = records.slice(recorded).map(({ reason }) => closeReasons[reason]);
      faults.push(
        `${count} of ${limit}, ${closed} of them closed; one more: ${isOneMore}; ${JSON.stringify(Object.groupBy(ends, end => end))}`,
      );
    }
    for (const fault of faults) t.diagnostic(fault);
    assert.ok(faults.length < ATTEMPTS, faults.join('\n'));
  };
  await isExact(PLACES, async () => {
    const socket = connect(gateway);
    socket.write(hello);
    await new Promise(resolve => socket.once('data', resolve).once('close', resolve));
    return socket;
  });
  await isExact(PENDING, () => connect(gateway));
  const deadline = performance.now() + WAIT_MS;
  while (openSockets().length > atRest && performance.now() < deadline) await sleep(20);
  const left = openSockets();
  assert.ok(left.length <= atRest, `${left.length} sockets instead of ${atRest}:\n${describeSockets(left)}`);
});
