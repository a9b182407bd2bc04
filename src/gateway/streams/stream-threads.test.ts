import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { closeReasons } from '../close-reason.ts';
import { startSampleGateway } from '../control/gateway.samples.ts';
import type { Gateway } from '../control/gateway.ts';
import { WorkerThread } from '../control/worker-thread.ts';
import type { EngineName } from '../io/open-reactor.ts';
import { ACTIVE_AT } from '../shared/shared-memory.ts';

const LIMIT = 8;
const WAIT_MS = 10_000;
/** The type of that HTTP/2 frame. */
const SETTINGS = 4;

async function given(engine: EngineName, kind = 'apps-http') {
  /** `/hold` is never answered. */
  const backend = createServer((request, response) => {
    // Not kept, because open sockets are counted below.
    if (request.url !== '/hold') response.writeHead(200, { Connection: 'close' }).end('served');
  });
  await once(backend.listen(0, '127.0.0.1'), 'listening');
  const { port } = backend.address() as net.AddressInfo;
  const clusterOf = (kind: string) =>
    sampleCluster('a', {
      limits: { connections: LIMIT, perSource: LIMIT },
      routes: [sampleRoute({ kind, hosts: ['a.lab'], backends: [`127.0.0.1:${port}`] })],
    });
  const backOff = (count: number) => Math.min(200, count * 10);
  const sample = await startSampleGateway(engine, { clusters: [clusterOf(kind)], backOff });
  const stop = async () => {
    await sample[Symbol.asyncDispose]();
    backend.closeAllConnections();
    backend.close();
  };
  return { ...sample, clusterOf, [Symbol.asyncDispose]: stop };
}

function connect(gateway: Gateway): net.Socket {
  const port = Number(gateway.listeners[0].address.split(':').at(-1));
  return net.connect(port, '127.0.0.1').on('error', () => {});
}

function ask(socket: net.Socket, path: string): void {
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a.lab\r\n\r\n`);
}

/** The status of a response on a new connection. */
async function visit(gateway: Gateway): Promise<number> {
  const socket = connect(gateway);
  ask(socket, '/');
  const [chunk] = await once(socket, 'data');
  socket.destroy();
  return Number(String(chunk).slice(9, 12));
}

/** Whether a stream thread answers the preface of HTTP/2. */
async function speaksH2(gateway: Gateway): Promise<boolean> {
  const socket = connect(gateway);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once('close', () => resolve(false)).once('data', (chunk: Buffer) => resolve(chunk[3] === SETTINGS));
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');
  const isAnswered = await promise;
  socket.destroy();
  return isAnswered;
}

async function untilH2(gateway: Gateway): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!(await speaksH2(gateway))) {
    assert.ok(performance.now() < deadline, 'no stream thread serves');
    await sleep(20);
  }
}

/** False while no thread serves yet. */
async function isServed(gateway: Gateway): Promise<boolean> {
  const socket = connect(gateway);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once('close', () => resolve(false)).once('data', () => resolve(true));
  ask(socket, '/');
  const served = await promise;
  socket.destroy();
  if (!served) await sleep(20);
  return served;
}

function openSockets(): number {
  const isSocket = (fd: string) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
    } catch {
      // The descriptor that reads this folder.
      return false;
    }
  };
  return readdirSync('/proc/self/fd').filter(isSocket).length;
}

function active(gateway: Gateway): number {
  let sum = 0;
  for (const { get } of gateway.routes()) sum += get(ACTIVE_AT);
  return sum;
}

async function until(holds: () => boolean): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!holds()) {
    assert.ok(performance.now() < deadline, `Timed out waiting for ${holds}`);
    await sleep(5);
  }
}

for (const engine of ['epoll', 'net'] as const) {
  test(`HTTP (${engine}): workers that die end their connections as shutdown and release their limits`, async () => {
    await using it = await given(engine);
    const { gateway, records, deaths } = it;
    const held = Array.from({ length: LIMIT }, () => connect(gateway));
    for (const socket of held) ask(socket.resume(), '/hold');
    await until(() => active(gateway) === LIMIT);
    assert.equal(await visit(gateway), 503);
    for (const number of [0, 1]) gateway.killWorker(number);
    await until(() => deaths.length === 2);
    // Limits are released as soon as a death is known.
    await until(() => active(gateway) === 0 && held.every(({ closed }) => closed));
    const ended = () => records.filter(({ reason }) => closeReasons[reason] === 'shutdown');
    await until(() => ended().length === LIMIT);
    for (const { route } of ended()) assert.equal(route?.cluster, 'a');
    // Exactly those were released.
    const again: net.Socket[] = [];
    while (active(gateway) < LIMIT) {
      const socket = connect(gateway);
      again.push(socket);
      const before = active(gateway);
      ask(socket, '/hold');
      await until(() => active(gateway) > before || socket.closed);
    }
    assert.equal(await visit(gateway), 503);
    for (const socket of again) socket.resetAndDestroy();
    await until(() => active(gateway) === 0);
    for (let round = 0; round < 8; round++) assert.equal(await visit(gateway), 200);
  });
}

test('HTTP: when workers die, no client is left waiting and no descriptor stays open', async () => {
  await using it = await given('epoll');
  const { gateway, deaths } = it;
  for (let served = 0; served < 4; ) if (await isServed(gateway)) served++;
  await until(() => gateway.connections === 0);
  const atRest = openSockets();
  const held = Array.from({ length: LIMIT }, () => connect(gateway));
  for (const socket of held) ask(socket.resume(), '/hold');
  await until(() => active(gateway) === LIMIT);
  for (const number of [0, 1]) gateway.killWorker(number);
  await until(() => deaths.length === 2);
  await until(() => held.every(({ closed }) => closed));
  // As many threads as before, with the same sockets open.
  for (let served = 0; served < 4; ) if (await isServed(gateway)) served++;
  // Not equal: some of those counted first may have been about to close.
  await until(() => openSockets() <= atRest);
});

test('stream threads start once for all who want them', async () => {
  await using it = await given('epoll');
  const { gateway } = it;
  assert.deepEqual(
    await Promise.all(Array.from({ length: LIMIT }, () => speaksH2(gateway))),
    Array(LIMIT).fill(true),
  );
});

test('stream threads that cannot start are tried again', async t => {
  await using it = await given('epoll');
  const { gateway, deaths } = it;
  const start = t.mock.method(WorkerThread.prototype, 'start', async () => new Error('No thread for now'));
  const early = speaksH2(gateway);
  await until(() => deaths.length >= 2);
  assert.equal(await visit(gateway), 200);
  start.mock.restore();
  assert.ok(await early, 'the connection that wanted them is served when they have started');
});

test('stream threads: the gateway survives the death of all of them at once', async () => {
  await using it = await given('epoll');
  const { gateway, deaths } = it;
  await untilH2(gateway);
  gateway.killWorker(0, 'stream');
  gateway.killWorker(1, 'stream');
  await until(() => deaths.length === 2);
  // The workers retry until one is back.
  for (let round = 0; round < 8; round++) assert.ok(await speaksH2(gateway));
});

test('stream threads that the first connection starts are restarted like others', async () => {
  await using it = await given('epoll', 'api');
  const { gateway, config, deaths } = it;
  assert.equal(await speaksH2(gateway), false, 'nothing here speaks HTTP');
  await gateway.apply({ ...config, clusters: [it.clusterOf('apps-http')] });
  assert.equal(await visit(gateway), 200, 'served as soon as it is applied');
  gateway.killWorker(0, 'stream');
  assert.ok(await speaksH2(gateway), 'the first connection waits for its thread');
  assert.deepEqual(deaths, [], 'there was no thread to kill before');
  gateway.killWorker(0, 'stream');
  gateway.killWorker(1, 'stream');
  await until(() => deaths.length === 2);
  assert.deepEqual(deaths.toSorted(), ['stream-0', 'stream-1']);
  await untilH2(gateway);
  assert.equal(await visit(gateway), 200, 'HTTP/1 needs none');
  assert.equal(gateway.trouble, undefined);
});
