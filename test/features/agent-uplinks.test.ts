// Every uplink, from a client of the agent to a backend behind the gateway: bytes, half-close, resets, slow readers.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import type { RunningAgent } from '../../testbed/start-agent.ts';
import { ID, StartedAhead, type Uplink, World } from './agent-given.ts';
import { supports } from './engine.ts';
import { hello, until } from './given.ts';

/** More than all buffers on the path can hold. */
const BULK = 32 * 1024 * 1024;
const CHUNK = 1024 * 1024;

let world: World;
before(async () => {
  world = await World.start();
});
after(async () => {
  await agents[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

const ways = (
  [
    ['proxy', false],
    ['proxy', true],
    ['connect', false],
    ['connect', true],
    ['tunnel', true],
    ['terminate', false],
  ] as readonly (readonly [uplink: Uplink, signed: boolean])[]
).filter(
  ([uplink, signed]) => (!signed || supports('signatures')) && (uplink !== 'connect' || supports('connect')),
);

const agents = new StartedAhead(
  ways.map(
    ([uplink, signed]) =>
      () =>
        world.agent(uplink, { signed }),
  ),
);

for (const [number, [uplink, signed]] of ways.entries()) {
  describe(`causeway agent --uplink ${uplink}${signed ? ', signed' : ''}`, () => {
    let agent: RunningAgent;
    before(async () => {
      agent = await agents.take(number);
    });
    after(() => agent?.[Symbol.asyncDispose]());

    /** Opens a connection; `line` waits for its line in the agent's log. */
    const open = async () => {
      const isConnection = ({ msg }: { readonly msg: string }) => msg === 'connection';
      const before = agent.lines().filter(isConnection).length;
      const ends = await world.open(uplink, agent);
      const line = () => until('the line', () => agent.lines().filter(isConnection)[before]);
      return { ...ends, line };
    };

    test('logs what it serves', () => {
      assert.equal(agent.ready.clusterId, ID);
      assert.equal(agent.ready.uplink, uplink);
      // Agents have no HAProxy.
      const { CAUSEWAY_TEST_ENGINE: engine = 'epoll' } = process.env;
      assert.equal(agent.ready.engine, engine === 'haproxy' ? 'epoll' : engine);
    });

    test('forwards bytes, and FIN from the client first', async () => {
      using ends = await open();
      const { client, backend, line } = ends;
      client.end('from the client');
      assert.match(await all(backend), /from the client$/);
      backend.end('from the backend');
      assert.equal(await all(client), 'from the backend');
      const { reason, route, cluster, dialMs } = await line();
      assert.deepEqual([reason, route, cluster], ['done', 'api', ID]);
      assert.ok(Number(dialMs) >= 0, `dialMs is ${dialMs}`);
    });

    test('forwards FIN from the backend first', async () => {
      using ends = await open();
      const { client, backend, line } = ends;
      backend.end('from the backend');
      assert.equal(await all(client), 'from the backend');
      client.end('from the client');
      assert.match(await all(backend), /from the client$/);
      assert.equal((await line()).reason, 'done');
    });

    test('forwards 32 MB each way at once, unchanged', async () => {
      using ends = await open();
      const { client, backend, line } = ends;
      const first = uplink === 'terminate' ? new Uint8Array() : hello('');
      const heard = [digestOf(client), digestOf(backend)];
      const [fromBackend, fromClient] = await Promise.all([
        pour(backend, new Uint8Array()),
        pour(client, first, supports('endsAtOnce') ? undefined : heard[0]),
      ]);
      assert.deepEqual(await Promise.all(heard), [fromBackend, fromClient]);
      assert.equal((await line()).reason, 'done');
    });

    test("forwards the client's reset", async () => {
      using ends = await open();
      const lost = lossOf(ends.backend);
      ends.client.write('more');
      await until('the bytes', () => ends.backend.readableLength >= 4);
      ends.backend.resume();
      ends.resetClient();
      assert.match(await lost, supports('resets') ? /^reset$/ : /^(?:reset|end)$/);
      assert.equal((await ends.line()).reason, 'client-reset');
    });

    test("forwards the backend's reset after its bytes", async () => {
      using ends = await open();
      const heard: Buffer[] = [];
      ends.client.on('data', (chunk: Buffer) => heard.push(chunk));
      const lost = lossOf(ends.client);
      ends.backend.write('before it');
      await until('the bytes', () => Buffer.concat(heard).toString() === 'before it');
      ends.resetBackend();
      assert.equal(await lost, supports('resets') ? 'reset' : 'end');
      if (supports('resets')) assert.equal((await ends.line()).reason, 'backend-reset');
    });

    test('is not slowed by a client that does not read', async () => {
      using slow = await open();
      slow.client.pause();
      let written = 0;
      const block = randomBytes(CHUNK);
      while (slow.backend.writableLength < 8 * CHUNK && written < 64 * CHUNK) {
        slow.backend.write(block);
        written += CHUNK;
        await new Promise(resolve => setImmediate(resolve));
      }
      assert.ok(written < 64 * CHUNK, 'it is stalled, and what is on its way is bounded');
      using quick = await open();
      quick.backend.on('data', () => quick.backend.write('pong'));
      quick.client.write('ping');
      const [heard] = (await once(quick.client, 'data')) as [Buffer];
      assert.match(heard.toString(), /^pong/);
    });

    test('leaves nothing open', async () => {
      await until(
        'the end of all',
        async () => (await world.gateway.metric('causeway_connections_active')) === 0,
      );
      const counts = world.gateway.connections().map(line => line.reason);
      assert.ok(!counts.includes('shutdown'));
    });
  });
}

async function all(stream: Duplex): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('latin1');
}

/** Sends BULK bytes, then, after `before`, FIN. Returns the hash of `first`, which was sent before, and these. */
async function pour(to: Duplex, first: Uint8Array, before?: Promise<unknown>): Promise<string> {
  const hash = createHash('sha256').update(first);
  const block = randomBytes(CHUNK);
  for (let sent = 0; sent < BULK; sent += CHUNK) {
    block.writeUInt32BE(sent, 0);
    const copy = Buffer.from(block);
    hash.update(copy);
    if (!to.write(copy)) await once(to, 'drain');
  }
  await before;
  to.end();
  return hash.digest('hex');
}

async function digestOf(from: Duplex): Promise<string> {
  const hash = createHash('sha256');
  from.on('data', (chunk: Buffer) => hash.update(chunk));
  await once(from, 'end');
  return hash.digest('hex');
}

/** How the other side ended. */
function lossOf(stream: Duplex): Promise<'reset' | 'end'> {
  return new Promise(resolve => {
    stream.once('error', () => resolve('reset'));
    stream.once('end', () => resolve('end'));
  });
}
