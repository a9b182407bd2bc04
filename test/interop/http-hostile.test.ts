// Hostile HTTP clients of all kinds at once, while an honest one is served: heads and bodies that
// drip, unread responses, chunks without an end, floods of refused and of pipelined requests. Memory
// stays bounded, each connection ends with a reason, and nothing is left behind.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { until } from '../features/given.ts';
import { assertAlive, HttpClient, request, untilIdle } from '../features/http-given.ts';

const LASTS_MS = 6_000;
/** The attack goes on until the gateway has ended connections for each of these reasons. */
const ENDED_FOR = ['hello-timeout', 'bad-request', 'unknown-host'];
/** Between two connections of an attacker: the test is not about the rate of refusals. */
const BETWEEN_MS = 200;
/** Buffers of the attackers and uncollected garbage. Unbounded, it would be gigabytes. */
const GROWTH_MIB = 300;

test('hostile HTTP clients: an honest one is served, memory is bounded, and nothing is left behind', async context => {
  await using backend = await startBackend();
  await using gateway = await startCauseway({
    config: `
listen: ["127.0.0.1:0"]
timeouts: { hello: 2s, connect: 1s, halfClosed: 1s }
log: { connections: none }
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["127.0.0.1:${backend.port}"] } }]
`,
  });
  await visit(gateway);
  const before = { files: await openFiles(gateway), mib: await residentMib(gateway) };

  const end = performance.now() + LASTS_MS;
  const over = new AbortController();
  const storm = Promise.all(
    Object.values(attackers).flatMap(({ count, attack }) =>
      Array.from({ length: count }, async () => {
        while (!over.signal.aborted) {
          await onConnection(gateway.port, over.signal, attack);
          await delay(BETWEEN_MS);
        }
      }),
    ),
  );
  const ended = (reason: string) => gateway.metric('causeway_connections_total', { reason });
  const isEnough = async () => (await Promise.all(ENDED_FOR.map(ended))).every(count => count > 0);
  let visits = 0;
  let slowest = 0;
  let most = 0;
  while (performance.now() < end || !(await isEnough())) {
    slowest = Math.max(slowest, await visit(gateway));
    visits++;
    if (visits % 4 === 0) most = Math.max(most, await residentMib(gateway));
  }
  over.abort();
  await storm;
  context.diagnostic(
    `${visits} visits, the slowest ${Math.round(slowest)} ms; memory ${before.mib} MiB before, ${most} MiB at most`,
  );
  assert.ok(most < before.mib + GROWTH_MIB, `memory went from ${before.mib} MiB to ${most} MiB`);

  await untilIdle(gateway);
  assert.notEqual(await ended('client-reset'), 0);
  await nothingLeft(gateway, before.files);
  assertAlive(gateway);
});

/** In its own thread, so that the attackers do not slow it down. */
async function startBackend(): Promise<AsyncDisposable & { readonly port: number }> {
  const worker = new Worker(
    `const block = Buffer.alloc(1024 * 1024, 'x');
     const server = require('node:http').createServer((request, response) => {
       request.resume();
       if (request.url === '/large') for (let sent = 0; sent < 16; sent++) response.write(block);
       request.on('end', () => response.end('served'));
     });
     server.requestTimeout = 0;
     server.listen(0, '127.0.0.1', () =>
       require('node:worker_threads').parentPort.postMessage(server.address().port));`,
    { eval: true },
  );
  const [port] = (await once(worker, 'message')) as [number];
  return {
    port,
    async [Symbol.asyncDispose]() {
      await worker.terminate();
    },
  };
}

type Attack = (socket: Socket, isOver: () => boolean) => Promise<void>;

const post = (...lines: readonly string[]) => request('POST / HTTP/1.1', 'Host: lab.test', ...lines);

const attackers: Record<string, { readonly count: number; readonly attack: Attack }> = {
  'heads that drip, first': {
    count: 50,
    attack: (socket, isOver) => drip(socket, isOver, 'GET / HTTP/1.1\r\n'),
  },
  'heads that drip, second': {
    count: 25,
    attack: (socket, isOver) =>
      drip(socket, isOver, `${request('GET / HTTP/1.1', 'Host: lab.test')}GET / HTTP/1.1\r\n`),
  },
  'bodies that drip': {
    count: 50,
    attack: (socket, isOver) => drip(socket, isOver, post('Content-Length: 100000')),
  },
  // Few, because the kernel buffers megabytes for each, in memory that all sockets of the machine share.
  'answers that nobody reads': {
    count: 8,
    attack: async (socket, isOver) => {
      socket.pause();
      socket.write(request('GET /large HTTP/1.1', 'Host: lab.test'));
      while (!isOver()) await delay(50);
    },
  },
  'chunks without an end': {
    count: 2,
    attack: async (socket, isOver) => {
      const chunk = Buffer.from(`4000\r\n${'x'.repeat(0x4000)}\r\n`);
      socket.write(post('Transfer-Encoding: chunked'));
      while (!isOver()) {
        if (!socket.write(chunk)) await Promise.race([once(socket, 'drain'), delay(100)]);
        await delay(2);
      }
    },
  },
  'a chunk extension without an end': {
    count: 4,
    attack: async (socket, isOver) => {
      socket.write(`${post('Transfer-Encoding: chunked')}5;`);
      while (!isOver()) {
        socket.write('x'.repeat(1000));
        await delay(5);
      }
    },
  },
  'what is refused': {
    count: 10,
    attack: async (socket, isOver) => {
      socket.write(request('GET / HTTP/1.1', 'Host: unknown.test'));
      while (!isOver()) await delay(20);
    },
  },
  'far too much sent ahead': {
    count: 2,
    attack: async (socket, isOver) => {
      const many = request('GET /large HTTP/1.1', 'Host: lab.test').repeat(2000);
      while (!isOver()) {
        socket.write(many);
        await delay(100);
      }
    },
  },
};

async function drip(socket: Socket, isOver: () => boolean, start: string): Promise<void> {
  socket.write(start);
  while (!isOver()) {
    socket.write('X');
    await delay(100);
  }
}

/** Attacks until the gateway ends the connection or the test is over. */
async function onConnection(port: number, over: AbortSignal, attack: Attack): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  let isClosed = false;
  socket.on('error', () => {});
  socket.once('close', () => (isClosed = true));
  socket.resume();
  await attack(socket, () => isClosed || over.aborted);
  if (!isClosed) socket.resetAndDestroy();
}

/** Returns the milliseconds it took. */
async function visit(gateway: Causeway): Promise<number> {
  const begun = performance.now();
  using visitor = await HttpClient.connect(gateway.port);
  const { status, body } = await visitor.get('lab.test');
  assert.deepEqual([status, body.toString()], [200, 'served']);
  visitor.send(post('Content-Length: 5'), 'hello');
  assert.equal((await visitor.answer()).status, 200);
  return performance.now() - begun;
}

async function nothingLeft(gateway: Causeway, files: number): Promise<void> {
  await until('their descriptors to be closed', async () => (await openFiles(gateway)) <= files);
}

async function openFiles({ program }: Causeway): Promise<number> {
  return (await readdir(`/proc/${program.pid}/fd`)).length;
}

async function residentMib({ program }: Causeway): Promise<number> {
  const status = await readFile(`/proc/${program.pid}/status`, 'utf8');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024);
}
