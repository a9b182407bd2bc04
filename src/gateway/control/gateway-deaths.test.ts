// A thread may die at any moment, whatever the control thread is doing. The operation then ends, the thread is
// restarted, and it serves.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import * as net from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../wire/hello.samples.ts';
import { loadLibc, SO_LINGER, SOL_SOCKET } from '../io/libc.ts';
import type { EngineName } from '../io/open-reactor.ts';
import { PAGE_SLOTS } from '../shared/shared-memory.ts';
import { type SampleGatewayOptions, startSampleGateway } from './gateway.samples.ts';
import type { Gateway } from './gateway.ts';
import type { Listener } from './open-listeners.ts';

const WAIT_MS = 30_000;
const hello = inRecords(helloMessage({ extensions: [serverNameExtension('api.a.lab')] }));
const engines = ['epoll', 'net'] as const;

async function given(engine: EngineName, options: Partial<SampleGatewayOptions> = {}) {
  const backend = net.createServer(socket => socket.on('error', () => {}).pipe(socket));
  await once(backend.listen(0, '127.0.0.1'), 'listening');
  const { port } = backend.address() as net.AddressInfo;
  const cluster = sampleCluster('a', {
    routes: [sampleRoute({ hosts: ['api.a.lab'], backends: [`127.0.0.1:${port}`] })],
  });
  const backOff = (count: number) => Math.min(200, count * 10);
  const sample = await startSampleGateway(engine, { clusters: [cluster], backOff, ...options });
  const stop = async () => {
    await sample[Symbol.asyncDispose]();
    backend.close();
  };
  return { ...sample, cluster, [Symbol.asyncDispose]: stop };
}

/** Agents may speak HTTP/2, for which there are stream threads. */
function withAgents(listener: Listener): Listener {
  return { ...listener, agents: ['127.0.0.0/8'] };
}

function portOf(gateway: Gateway): number {
  return Number(gateway.listeners[0].address.split(':').at(-1));
}

/** Whether a new connection gets an echo. */
async function isServed(gateway: Gateway): Promise<boolean> {
  const socket = net.connect(portOf(gateway), '127.0.0.1').on('error', () => {});
  socket.write(hello);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once('close', () => resolve(false)).once('data', () => resolve(true));
  const served = await promise;
  socket.destroy();
  return served;
}

/** Enough in a row that every worker gets some. */
async function untilServed(gateway: Gateway): Promise<void> {
  for (let inRow = 0; inRow < 12; ) inRow = (await isServed(gateway)) ? inRow + 1 : 0;
}

function delayTables(t: TestContext): void {
  const { postMessage } = Worker.prototype;
  t.mock.method(Worker.prototype, 'postMessage', function (this: Worker, message: { kind?: string }) {
    const post = () => postMessage.call(this, message);
    if (message.kind === 'table' && this.threadName?.startsWith('causeway-worker')) setTimeout(post, 50);
    else post();
  });
}

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!holds()) {
    assert.ok(performance.now() < deadline, `Timed out waiting for ${what}`);
    await sleep(5);
  }
}

for (const engine of engines) {
  test(`Gateway.apply() (${engine}) settles even if workers die while it is in progress`, async () => {
    await using it = await given(engine);
    const { gateway, config, deaths } = it;
    let rounds = 0;
    for (let round = 0; deaths.length < 10; round = rounds % 10) {
      rounds++;
      const clusters = [it.cluster, sampleCluster(`b${round}`, { routes: [sampleRoute()] })];
      const applied = gateway.apply({ ...config, clusters });
      // At a different point of the change each time.
      for (let turns = 0; turns < round; turns++) await new Promise(setImmediate);
      gateway.killWorker(round % 2);
      if (round % 3 === 0) gateway.killWorker(1 - (round % 2));
      await applied;
      await sleep(10);
    }
    await untilServed(gateway);
    assert.equal(gateway.generation, rounds + 1);
  });

  test(`Gateway.apply() (${engine}) settles even if stream threads die while they start`, async () => {
    await using it = await given(engine);
    const { gateway, config } = it;
    const next = { ...config, listeners: config.listeners.map(withAgents) };
    const applied = gateway.apply(next);
    const killing = setInterval(() => {
      for (const number of [0, 1]) gateway.killWorker(number, 'stream');
    }, 1);
    await sleep(300);
    clearInterval(killing);
    // The change is served, or refused as a whole.
    await applied.catch((error: unknown) => assert.match(String(error), /Cannot start a stream thread/));
    await gateway.apply(next);
    await untilServed(gateway);
  });

  test(`Gateway.drain() and stop() (${engine}) settle when workers are dead or dying`, async () => {
    for (const [kill, wait] of [
      [[0], 0],
      [[0, 1], 0],
      [[0, 1], 5],
    ] as const) {
      await using it = await given(engine);
      const { gateway } = it;
      const socket = net.connect(portOf(gateway), '127.0.0.1').on('error', () => {});
      socket.write(hello);
      await once(socket, 'data');
      for (const number of kill) gateway.killWorker(number);
      await sleep(wait);
      await gateway.drain(200);
      await gateway.stop();
      assert.equal(gateway.connections, 0);
      socket.destroy();
    }
  });

  test(`Gateway (${engine}) survives a worker that dies again while it restarts`, async () => {
    await using it = await given(engine);
    const { gateway, deaths } = it;
    const deadline = performance.now() + 1000;
    while (performance.now() < deadline) {
      gateway.killWorker(0);
      await sleep(Math.random() * 60);
    }
    assert.ok(deaths.length > 1);
    await untilServed(gateway);
  });
}

test('Gateway resets the connections of a dead worker, so that nobody takes them for complete', async () => {
  await using it = await given('epoll', { workers: 1 });
  const socket = net.connect(portOf(it.gateway), '127.0.0.1');
  const { promise: end, resolve } = Promise.withResolvers<string | undefined>();
  socket.once('end', () => resolve('FIN')).on('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
  socket.write(hello);
  await once(socket, 'data');
  it.gateway.killWorker(0);
  assert.equal(await end, 'ECONNRESET');
  socket.destroy();
});

test('Gateway leaves the listener of a dead worker as it is, since another process may have it too', async () => {
  await using it = await given('epoll', { workers: 1 });
  const [{ descriptors }] = it.gateway.sockets;
  const { duplicate } = await import('../io/duplicate.ts');
  const theirs = duplicate(descriptors[0]);
  try {
    it.gateway.killWorker(0);
    await until('its death', () => it.deaths.length === 1);
    const linger = new Int32Array([-1, -1]);
    const [value, size] = [new Uint8Array(linger.buffer), new Uint8Array(new Int32Array([8]).buffer)];
    assert.equal(loadLibc().getsockopt(theirs, SOL_SOCKET, SO_LINGER, value, size), 0);
    assert.deepEqual([...linger], [0, 0]);
  } finally {
    closeSync(theirs);
  }
});

test('Gateway retries when the listener of a restarted worker cannot be opened', async () => {
  let foreign: net.Server | undefined;
  await using it = await given('epoll', { workers: 1 });
  const { gateway, deaths, causes } = it;
  const port = portOf(gateway);
  gateway.killWorker(0);
  await until('its death', () => deaths.length === 1);
  // Its descriptors are closed by now, and it restarts in a later turn of the event loop.
  foreign = net.createServer().listen(port, '127.0.0.1');
  await once(foreign, 'listening');
  await until('further deaths', () => deaths.length >= 3);
  assert.match(causes[1].message, /Cannot listen on '127.0.0.1:0': address already in use/);
  assert.match(gateway.trouble ?? '', /worker threads keep dying|no worker thread is running/);
  foreign.close();
  await once(foreign, 'close');
  await untilServed(gateway);
});

test('Gateway.trouble reports threads that keep dying until they have lived for a while', async t => {
  // With one worker, a connection is served only once it has restarted and can be killed again.
  await using it = await given('net', { workers: 1 });
  const { gateway, deaths } = it;
  assert.equal(gateway.trouble, undefined);
  for (let count = 1; count <= 3; count++) {
    gateway.killWorker(0);
    await until('its death', () => deaths.length === count);
    await untilServed(gateway);
  }
  assert.equal(gateway.trouble, 'worker threads keep dying; the log says why');
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + 60_000);
  assert.equal(gateway.trouble, undefined);
});

test('Gateway.start() explains why no thread can be started', async () => {
  // Functions cannot be cloned to a thread.
  const settings = { log: (() => {}) as never };
  await assert.rejects(startSampleGateway('net', { clusters: [], settings }), {
    code: 'ERR_START',
    message: /^Cannot start a worker thread: .* could not be cloned/,
  });
});

for (const engine of engines) {
  test(`Gateway (${engine}) grows its memory under traffic before any thread needs it`, async t => {
    const backend = net.createServer(socket => {
      socket.on('error', () => {});
      socket.on('data', () =>
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'),
      );
    });
    await once(backend.listen(0, '127.0.0.1'), 'listening');
    const { port } = backend.address() as net.AddressInfo;
    const web = (name: string) =>
      sampleCluster(name, {
        routes: [sampleRoute({ kind: 'apps-http', hosts: [`${name}.lab`], backends: [`127.0.0.1:${port}`] })],
      });
    await using it = await startSampleGateway(engine, { clusters: [web('w0')] });
    const { gateway, config, deaths } = it;
    // Stream threads then know a new route well before the workers. Not on epoll, where a worker reads messages only when
    // it is woken.
    if (engine === 'net') delayTables(t);
    // Keeps requesting the newest cluster, whether it is served yet or not.
    let newest = 'w0';
    let answers = 0;
    const done = new AbortController();
    const visitors = Array.from({ length: 8 }, async () => {
      while (!done.signal.aborted) {
        const socket = net.connect(portOf(gateway), '127.0.0.1').on('error', () => {});
        socket.write(`GET / HTTP/1.1\r\nHost: ${newest}.lab\r\nConnection: close\r\n\r\n`);
        socket.on('data', chunk => {
          if (String(chunk).startsWith('HTTP/1.1 200')) answers++;
        });
        await once(socket, 'close');
      }
    });
    // Reads counters during a change, too.
    const looking = setInterval(() => {
      gateway.traffic();
      for (const { slot, get } of gateway.routes()) {
        get(0);
        gateway.requests(slot);
      }
    }, 20);
    const clusters = [web('w0')];
    for (let page = 1; page <= 3; page++) {
      for (let i = 0; i < PAGE_SLOTS; i++) clusters.push(web(`w${page}x${i}`));
      newest = clusters.at(-1)?.name ?? '';
      const before = answers;
      await gateway.apply({ ...config, clusters: [...clusters] });
      await until('answers of the newest cluster', () => answers > before + 20);
    }
    done.abort();
    await Promise.all(visitors);
    clearInterval(looking);
    assert.deepEqual(deaths, []);
    backend.close();
  });
}

test('Gateway can be inspected while its first stream threads start', async () => {
  await using it = await given('epoll');
  const { gateway, config } = it;
  let looks = 0;
  const looking = setInterval(() => {
    for (const { slot, get } of gateway.routes()) {
      get(0);
      gateway.requests(slot);
    }
    gateway.figuresOf('a', 'api');
    gateway.traffic();
    looks++;
  }, 0);
  await gateway.apply({ ...config, listeners: config.listeners.map(withAgents) });
  clearInterval(looking);
  assert.ok(looks > 0);
});
