// Drain and exit: connections that arrived in time are served, and the process ends on its signals.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { after, before, describe, test } from 'node:test';
import { logLines } from '../../testbed/log-lines.ts';
import { type Program, startProgram } from '../../testbed/program.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, connectClient, hello, isClosed, lineOf, type Peer, until } from './given.ts';

/** Far longer than a test may take. */
const NEVER = '1h';

let backend: Backend;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ silent: true }));
});

after(() => stack.disposeAsync());

function start(timeouts: string): Promise<Causeway> {
  return startCauseway({
    config: `
listen: ["127.0.0.1:0"]
timeouts: { ${timeouts} }
clusters: [{ name: lab, api: { hosts: [lab.test], backends: ["${backend.text}"] } }]
`,
  });
}

async function tunnel(gateway: Causeway): Promise<[client: Peer, served: Peer]> {
  const client = await connectClient(gateway.port);
  client.send(hello('lab.test'), nameOf(client));
  return [client, await servedFor(client)];
}

async function readiness(gateway: Causeway): Promise<[number, string]> {
  const response = await fetch(`${gateway.admin}/readyz`);
  return [response.status, await response.text()];
}

describe('a drain', { concurrency: true }, () => {
  test('without connections ends at once with code 0', async () => {
    await using gateway = await start(`drain: ${NEVER}`);
    gateway.program.signal('SIGINT');
    assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
    assert.equal(gateway.lines().filter(line => line.msg === 'draining').length, 1);
  });

  test('fails readyz at once, accepts during drainDelay, lets tunnels finish, ends with code 0', async () => {
    await using gateway = await start(`drainDelay: 2s, drain: ${NEVER}`);
    const [client, served] = await tunnel(gateway);
    using _ = client;
    assert.deepEqual(await readiness(gateway), [200, 'ok']);
    const begun = performance.now();
    gateway.program.signal('SIGTERM');
    await gateway.line(line => line.msg === 'draining');
    assert.deepEqual(await readiness(gateway), [503, 'draining']);
    assert.equal((await fetch(`${gateway.admin}/healthz`)).status, 200);
    const [late] = await tunnel(gateway);

    await until('nobody to listen', () => isClosed(gateway.port));
    assert.ok(performance.now() - begun >= 2000);
    assert.equal(gateway.program.exit(), undefined);
    client.send('still open');
    await served.receives('still open');
    for (const peer of [client, late]) {
      peer.finish();
      (await servedFor(peer)).finish();
      assert.equal((await lineOf(gateway, peer)).reason, 'done');
    }
    assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
  });

  test('ends open connections when its time is over', async () => {
    await using gateway = await start('drain: 500ms');
    const [client, served] = await tunnel(gateway);
    using _ = client;
    const begun = performance.now();
    gateway.program.signal('SIGTERM');
    assert.deepEqual(await Promise.all([client.untilEnd(), served.untilEnd()]), ['FIN', 'FIN']);
    assert.ok(performance.now() - begun >= 500);
    assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
    assert.equal((await lineOf(gateway, client)).reason, 'drained');
  });

  test('serves the connections in the kernel’s accept queue', async () => {
    await using gateway = await start(`drain: ${NEVER}`);
    gateway.program.signal('SIGSTOP');
    const clients = await Promise.all(Array.from({ length: 20 }, () => connectClient(gateway.port)));
    for (const client of clients) client.send(hello('lab.test'), nameOf(client));
    gateway.program.signal('SIGTERM');
    gateway.program.signal('SIGCONT');
    for (const client of clients) {
      const served = await servedFor(client);
      client.finish();
      served.finish();
      assert.equal(await client.untilEnd(), 'FIN');
      client[Symbol.dispose]();
    }
    assert.deepEqual(await gateway.program.ended, { code: 0, signal: null });
    assert.ok(gateway.connections().every(line => line.reason === 'done'));
    assert.equal(gateway.connections().length, 20);
  });
});

describe('a second signal ends the process at once, with code 0', { concurrency: true }, () => {
  for (const [when, timeouts] of [
    ['while tunnels may finish', `drain: ${NEVER}`],
    ['while drainDelay lasts', `drainDelay: ${NEVER}`],
  ] as const) {
    test(when, async () => {
      await using gateway = await start(timeouts);
      const [client, served] = await tunnel(gateway);
      using _ = client;
      gateway.program.signal('SIGTERM');
      await gateway.line(line => line.msg === 'draining');
      gateway.program.signal('SIGINT');
      assert.deepEqual(await Promise.all([client.untilEnd(), served.untilEnd()]), ['FIN', 'FIN']);
      assert.deepEqual(await until('its end', () => gateway.program.exit()), { code: 0, signal: null });
      assert.equal((await lineOf(gateway, client)).reason, 'shutdown');
    });
  }

  test('while nothing is open', async () => {
    await using gateway = await start(`drainDelay: ${NEVER}`);
    gateway.program.signal('SIGINT');
    await gateway.line(line => line.msg === 'draining');
    gateway.program.signal('SIGINT');
    assert.deepEqual(await until('its end', () => gateway.program.exit()), { code: 0, signal: null });
  });
});

describe('a signal before it serves', { concurrency: true, skip: process.platform !== 'linux' }, () => {
  /** Takes about a second to read. */
  const clusters = Array.from({ length: 3000 }, (_, i) => `  - { name: c${i}, api: { backends: [] } }\n`);

  /** Resolves when it has its signal handlers and is still reading its file. */
  async function startReading(): Promise<AsyncDisposable & { program: Program; isReady(): boolean }> {
    await using stack = new AsyncDisposableStack();
    const dir = stack.use(await tempDir());
    const file = dir.file('causeway.yaml');
    await writeFile(file, `listen: ["127.0.0.1:0"]\nadmin: { on: "off" }\nclusters:\n${clusters.join('')}`);
    const program = stack.use(
      await startProgram({
        command: causewayBin,
        args: ['run', '-c', file],
        ready: { probe: async () => true },
      }),
    );
    const { lines } = logLines(program);
    const isReady = () => lines().some(line => line.msg === 'ready');
    // The last handler that it installs; Node itself handles the other signals.
    await until('its handlers', () => catchesHangup(program.pid));
    assert.equal(isReady(), false);
    const all = stack.move();
    return { program, isReady, [Symbol.asyncDispose]: () => all.disposeAsync() };
  }

  test('SIGTERM ends it at once, with code 0', async () => {
    await using starting = await startReading();
    starting.program.signal('SIGTERM');
    assert.deepEqual(await starting.program.ended, { code: 0, signal: null });
    assert.equal(starting.isReady(), false);
  });

  test('SIGHUP does not keep it from serving', async () => {
    await using starting = await startReading();
    starting.program.signal('SIGHUP');
    await until('its ready line', () => starting.isReady());
  });
});

function catchesHangup(pid: number): boolean {
  const mask = /^SigCgt:\t([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? '0';
  return (BigInt(`0x${mask}`) & (1n << BigInt(constants.signals.SIGHUP - 1))) !== 0n;
}

async function servedFor(client: Peer): Promise<Peer> {
  const name = nameOf(client);
  return until(`${name} to be served`, () =>
    backend.connections.find(peer => peer.received().includes(name)),
  );
}

/** Clients of two gateways may have the same port. */
function nameOf({ address, socket }: Peer): string {
  return `${address} to ${socket.remotePort};`;
}
