import assert from 'node:assert/strict';
import { once } from 'node:events';
import { globSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import * as net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { closeReasons } from '../close-reason.ts';
import { startSampleGateway } from '../control/gateway.samples.ts';
import type { Gateway } from '../control/gateway.ts';
import type { EngineName } from '../io/open-reactor.ts';
import { ACTIVE_AT } from '../shared/shared-memory.ts';

const LIMIT = 8;
const WAIT_MS = 10_000;

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
  const sample = await startSampleGateway(engine, { clusters: [clusterOf(kind)] });
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

/** The status of a response on a new connection; 0 if there is none. */
async function statusOf(gateway: Gateway): Promise<number> {
  const socket = connect(gateway);
  const { promise, resolve } = Promise.withResolvers<number>();
  socket.once('close', () => resolve(0)).once('data', chunk => resolve(Number(String(chunk).slice(9, 12))));
  ask(socket, '/');
  const status = await promise;
  socket.destroy();
  return status;
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
  test(`HTTP threads (${engine}): those that an edit starts are restarted like others`, async () => {
    await using it = await given(engine, 'api');
    const { gateway, config, deaths } = it;
    gateway.killWorker(0, 'http');
    await gateway.apply({ ...config, clusters: [it.clusterOf('apps-http')] });
    assert.equal(await visit(gateway), 200, 'served as soon as it is applied');
    assert.deepEqual(deaths, [], 'there was no thread to kill before');
    gateway.killWorker(0, 'http');
    gateway.killWorker(1, 'http');
    await until(() => deaths.length === 2);
    assert.deepEqual(deaths.toSorted(), ['http-0', 'http-1']);
    const deadline = performance.now() + WAIT_MS;
    while ((await statusOf(gateway)) !== 200) {
      assert.ok(performance.now() < deadline, 'no HTTP thread serves again');
      await sleep(20);
    }
    assert.equal(gateway.trouble, undefined);
  });

  test(`HTTP threads (${engine}): one that dies ends its connections as shutdown and restarts`, async () => {
    await using it = await given(engine);
    const { gateway, records, deaths } = it;
    const held = Array.from({ length: LIMIT }, () => connect(gateway));
    let closed = 0;
    for (const socket of held) {
      socket.once('close', () => closed++);
      ask(socket, '/hold');
    }
    await until(() => active(gateway) === LIMIT);
    assert.equal(await visit(gateway), 503);

    gateway.killWorker(0, 'http');
    await until(() => deaths.length === 1);
    assert.deepEqual(deaths, ['http-0']);
    // Its limits are released as soon as its death is known.
    const lost = LIMIT - active(gateway);
    assert.ok(lost > 0 && lost < LIMIT, `${lost} of ${LIMIT}: those of the other thread go on`);
    await until(() => closed === lost && gateway.connections === LIMIT - lost);
    const ended = () => records.filter(({ reason }) => closeReasons[reason] === 'shutdown');
    await until(() => ended().length === lost);
    for (const { route } of ended()) assert.equal(route?.cluster, 'a');

    // Exactly those were released.
    const again = Array.from({ length: lost }, () => connect(gateway));
    for (const socket of again) ask(socket, '/hold');
    await until(() => active(gateway) === LIMIT);
    assert.equal(await visit(gateway), 503);

    // A change still reaches all threads, including the new one, which serves.
    await gateway.apply(it.config);
    for (const socket of [...held, ...again]) socket.resetAndDestroy();
    await until(() => active(gateway) === 0);
    for (let round = 0; round < 8; round++) assert.equal(await visit(gateway), 200);
    assert.deepEqual(deaths, ['http-0']);
  });
}

for (const kind of ['http', 'worker'] as const) {
  test(`HTTP threads: when ${kind} threads die, no client is left waiting and no descriptor stays open`, async () => {
    await using it = await given('epoll');
    const { gateway, deaths } = it;
    for (let served = 0; served < 4; ) if (await isServed(gateway)) served++;
    await until(() => gateway.connections === 0);
    const atRest = openSockets();
    const held = Array.from({ length: LIMIT }, () => connect(gateway));
    for (const socket of held) ask(socket.resume(), '/hold');
    await until(() => active(gateway) === LIMIT);
    for (const number of [0, 1]) gateway.killWorker(number, kind);
    await until(() => deaths.length === 2);
    await until(() => held.every(({ closed }) => closed));
    // As many threads as before, with the same sockets open.
    for (let served = 0; served < 4; ) if (await isServed(gateway)) served++;
    // Not equal: some of those counted first may have been about to close.
    await until(() => openSockets() <= atRest);
  });
}

test('HTTP threads: the gateway survives the death of all of them at once', async () => {
  await using it = await given('epoll');
  const { gateway, deaths } = it;
  assert.equal(await visit(gateway), 200);
  gateway.killWorker(0, 'http');
  gateway.killWorker(1, 'http');
  await until(() => deaths.length === 2);
  // The workers retry until one is back.
  for (let round = 0; round < 8; round++) assert.equal(await visit(gateway), 200);
});

for (const engine of ['epoll', 'net'] as const) {
  test(`HTTP threads (${engine}): deleted sockets are made anew, and open connections go on`, async () => {
    await using it = await given(engine);
    const { gateway } = it;
    const held = connect(gateway);
    ask(held, '/hold');
    await until(() => active(gateway) === 1);
    const folders = () => globSync(join(tmpdir(), 'causeway-sockets-*'));
    const before = folders();
    for (const folder of before) rmSync(folder, { recursive: true });
    assert.equal(gateway.trouble, undefined);
    await gateway.checkSockets();
    assert.equal(gateway.trouble, undefined);
    assert.equal(folders().length, 1);
    assert.ok(!before.includes(folders()[0]));
    for (let round = 0; round < 8; round++) assert.equal(await visit(gateway), 200);
    assert.equal(held.destroyed, false);
    held.destroy();

    // While they cannot be made, readiness reports it.
    const temporary = process.env.TMPDIR;
    try {
      for (const folder of folders()) rmSync(folder, { recursive: true });
      process.env.TMPDIR = '/nowhere';
      await gateway.checkSockets();
      assert.match(gateway.trouble ?? '', /TMPDIR/);
    } finally {
      if (temporary === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = temporary;
    }
    await gateway.checkSockets();
    assert.equal(gateway.trouble, undefined);
    assert.equal(await visit(gateway), 200);
  });
}

test('HTTP threads: log lines that one held when it died are counted as dropped', async () => {
  await using it = await given('epoll');
  const { gateway, requests, dropped, deaths } = it;
  const lost = () => dropped.reduce((sum, count) => sum + count, 0);
  // Lines wait a moment for others to be sent with, unless this thread is slow: then none is held when it kills.
  let asked = 0;
  while (lost() === 0) {
    for (let i = 0; i < 40; i++, asked++) assert.equal(await visit(gateway), 200);
    const before = deaths.length;
    await until(() => {
      // Again and again: one of them may still be restarting, while the other served everything above.
      for (const number of [0, 1]) gateway.killWorker(number, 'http');
      return deaths.length >= before + 2;
    });
  }
  assert.equal(requests.length + lost(), asked);
});
