// Bytes through the gateway, both ways: none lost, duplicated or reordered, at any pace, and each direction ends
// separately.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import * as tls from 'node:tls';
import { crc32 } from 'node:zlib';
import { extension, helloMessage, inRecords, serverNameExtension } from '../../src/wire/hello.samples.ts';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import { Backend, bytes, connectClient, hello, lineOf, type Peer, until } from './given.ts';

const MIB = 1024 * 1024;
/** Tests pause for a sixth of these between bytes. A busy machine makes that longer, but not six times as long. */
const IDLE_MS = 3000;
const HALF_CLOSED_MS = 1500;

let gateway: Causeway;
/** With short time-outs. */
let impatient: Causeway;
let backend: Backend;
let bulk: BulkBackend;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ silent: true }));
  bulk = stack.use(await BulkBackend.start());
  const secure = stack.use(await startTlsEcho('secure.test'));
  // One worker, so that tunnels share all its resources.
  const config = `
listen: ["127.0.0.1:0"]
workers: 1
clusters:
  - { name: plain, api: { hosts: [plain.test], backends: ["${backend.text}"] } }
  - { name: counted, api: { hosts: [counted.test], backends: ["${backend.text}"] } }
  - { name: bulk, api: { hosts: [bulk.test], backends: ["127.0.0.1:${bulk.port}"] } }
  - { name: secure, api: { hosts: [secure.test], backends: ["127.0.0.1:${secure.port}"] } }
`;
  const timeouts = `timeouts: { idle: ${IDLE_MS}ms, halfClosed: ${HALF_CLOSED_MS}ms }`;
  [gateway, impatient] = await Promise.all(
    [config, config + timeouts].map(async text => stack.use(await startCauseway({ config: text }))),
  );
});

after(() => stack.disposeAsync());

/** A tunnel to the silent backend, whose side is found by the hello. Dispose the client. */
async function tunnel(through: Causeway, host = 'plain.test'): Promise<[client: Peer, served: Peer]> {
  const client = await connectClient(through.port);
  const mark = randomBytes(16);
  client.send(hello(host), mark);
  const served = await until('the backend to be reached', () =>
    backend.connections.find(connection => connection.received().includes(mark)),
  );
  return [client, served];
}

describe('the first bytes reach the backend unchanged', { concurrency: true }, () => {
  test('a hello in single bytes', async () => {
    using client = await connectClient(gateway.port);
    const mark = bytes(
      inRecords(
        helloMessage({ extensions: [serverNameExtension('plain.test')] }),
        supports('manyRecordHello') ? [1, 2, 3, 5, 8] : [],
      ),
    );
    await client.drip(mark);
    await until('it at the backend', () =>
      backend.connections.some(served => served.received().equals(mark)),
    );
  });

  if (supports('manyRecordHello'))
    test('a hello of 40 KiB in many records', async () => {
      using client = await connectClient(gateway.port);
      const large = extension(21, randomBytes(40 * 1024));
      const message = helloMessage({ extensions: [large, serverNameExtension('plain.test')] });
      const sent = bytes(
        inRecords(
          message,
          Array.from({ length: 100 }, () => 311),
        ),
      );
      client.send(sent.subarray(0, 20_000));
      client.send(sent.subarray(20_000));
      await until('it at the backend', () =>
        backend.connections.some(served => served.received().equals(sent)),
      );
    });

  test('early data after the hello', async () => {
    using client = await connectClient(gateway.port);
    const sent = bytes(hello('plain.test'), randomBytes(30_000));
    client.send(sent);
    await until('it at the backend', () =>
      backend.connections.some(served => served.received().equals(sent)),
    );
  });
});

describe('an end', { concurrency: true }, () => {
  test("the client's FIN leaves the other direction open", async () => {
    const [client, served] = await tunnel(gateway);
    using _ = client;
    client.finish();
    assert.equal(await served.untilEnd(), 'FIN');
    served.send('still there');
    await client.receives('still there');
    served.finish();
    assert.equal(await client.untilEnd(), 'FIN');
    assert.equal((await lineOf(gateway, client)).reason, 'done');
  });

  test("the backend's FIN leaves the other direction open", async () => {
    const [client, served] = await tunnel(gateway);
    using _ = client;
    served.finish();
    assert.equal(await client.untilEnd(), 'FIN');
    client.send('still there');
    await served.receives('still there');
    client.finish();
    assert.equal(await served.untilEnd(), 'FIN');
    assert.equal((await lineOf(gateway, client)).reason, 'done');
  });

  test('FIN arrives after the bytes before it, for a client that reads late', async () => {
    const [client, served] = await tunnel(gateway);
    using _ = client;
    client.socket.pause();
    const last = randomBytes(32 * MIB);
    served.send(last);
    served.finish();
    assert.ok((await untilStalled(served.socket)) < last.length);
    client.socket.resume();
    assert.equal(await client.untilEnd(), 'FIN');
    assert.ok(client.received().equals(last));
  });

  for (const who of ['client', 'backend'] as const) {
    if (supports('resets'))
      test(`a reset by the ${who} arrives after the bytes before it`, async () => {
        const [client, served] = await tunnel(gateway);
        using _ = client;
        const [from, to] = who === 'client' ? [client, served] : [served, client];
        const before = to.received().length;
        const last = randomBytes(32 * 1024);
        await new Promise(resolve => from.socket.write(last, resolve));
        from.reset();
        assert.equal(await to.untilEnd(), 'RST');
        assert.ok(to.received().subarray(before).equals(last));
        assert.equal((await lineOf(gateway, client)).reason, `${who}-reset`);
      });

    test(`a reset by the ${who} after its FIN stops the other direction`, async () => {
      const [client, served] = await tunnel(gateway);
      using _ = client;
      const [from, to] = who === 'client' ? [client, served] : [served, client];
      from.finish();
      assert.equal(await to.untilEnd(), 'FIN');
      const before = from.received().length;
      to.send(randomBytes(MIB));
      await from.receives(before + MIB);
      from.reset();
      // A socket that received FIN notices a reset only when it writes.
      await until('the reset', () => {
        if (!to.socket.destroyed) to.send('.');
        return to.socket.destroyed;
      });
      assert.equal((await lineOf(gateway, client)).reason, `${who}-reset`);
    });
  }
});

for (const who of ['client', 'backend'] as const) {
  if (supports('resets'))
    test(`a reset by the ${who} that is seen together with bytes is still a reset`, async () => {
      const [client, served] = await tunnel(gateway);
      using _ = client;
      const [from, to] = who === 'client' ? [client, served] : [served, client];
      const before = to.received().length;
      const last = randomBytes(1024);
      gateway.program.signal('SIGSTOP');
      await new Promise(resolve => from.socket.write(last, resolve));
      from.reset();
      gateway.program.signal('SIGCONT');
      assert.equal(await to.untilEnd(), 'RST');
      assert.ok(to.received().subarray(before).equals(last));
      assert.equal((await lineOf(gateway, client)).reason, `${who}-reset`);
    });
}

describe('a time-out', { concurrency: true }, () => {
  test('idle: a byte in either direction restarts it', async () => {
    const [client, served] = await tunnel(impatient);
    using _ = client;
    for (const side of [client, served, client, served, client, served, client, served]) {
      await delay(IDLE_MS / 6);
      side.send('.');
    }
    assert.equal(client.end(), undefined);
    assert.deepEqual(await Promise.all([client.untilEnd(), served.untilEnd()]), ['FIN', 'FIN']);
    const { reason, ms } = await lineOf(impatient, client);
    assert.equal(reason, 'idle-timeout');
    assert.ok(Number(ms) > 2 * IDLE_MS, `${ms} ms`);
  });

  for (const who of ['client', 'backend'] as const) {
    test(`halfClosed: a byte restarts it after FIN from the ${who}`, async () => {
      const [client, served] = await tunnel(impatient);
      using _ = client;
      const [ended, open] = who === 'client' ? [client, served] : [served, client];
      ended.finish();
      for (let i = 0; i < 8; i++) {
        await delay(HALF_CLOSED_MS / 6);
        open.send('.');
      }
      assert.equal(ended.end(), undefined);
      assert.equal(await ended.untilEnd(), 'FIN');
      const { reason, ms } = await lineOf(impatient, client);
      assert.equal(reason, supports('halfClosedReason') ? 'half-closed-timeout' : 'idle-timeout');
      assert.ok(Number(ms) > 2 * HALF_CLOSED_MS, `${ms} ms`);
    });
  }

  test('an idle tunnel has none by default', async () => {
    const [client, served] = await tunnel(gateway);
    using _ = client;
    await delay(1000);
    client.send('after a while');
    await served.receives('after a while');
  });
});

test('every byte is counted, in the log and in the metrics', async () => {
  const [client, served] = await tunnel(gateway, 'counted.test');
  using _ = client;
  client.send(randomBytes(100_000));
  served.send(randomBytes(300_001));
  await Promise.all([client.receives(300_001), served.receives(100_000 + hello('counted.test').length + 16)]);
  client.finish();
  served.finish();
  const line = await lineOf(gateway, client);
  const all = { in: served.received().length, out: 300_001 };
  assert.deepEqual({ in: line.in, out: line.out }, all);
  const counted = (direction: string) =>
    gateway.metric('causeway_bytes_total', { cluster: 'counted', direction });
  assert.deepEqual({ in: await counted('in'), out: await counted('out') }, all);
});

test('TLS ends at the backend: its certificate, its ALPN, 4 MiB each way', async () => {
  const ca = await readFile((await authority()).certFile);
  const options = {
    host: '127.0.0.1',
    port: gateway.port,
    servername: 'secure.test',
    ca,
    ALPNProtocols: ['echo'],
  };
  const socket = tls.connect(options);
  await once(socket, 'secureConnect');
  assert.equal(socket.authorized, true);
  assert.equal(socket.alpnProtocol, 'echo');
  const [sent, heard] = await Promise.all([pour(socket, 4 * MIB), drain(socket, 4 * MIB)]);
  assert.equal(heard, sent);
  socket.destroy();
});

describe('a side that does not read', () => {
  const total = 128 * MIB;
  for (const slow of ['client', 'backend'] as const) {
    test(`the ${slow}: the other is held up, memory stays bounded, and other tunnels are not held up`, async () => {
      const memory = await residentBytes(gateway);
      const [client, served] = await bulkTunnel();
      const [writer, reader] = slow === 'client' ? [served, client] : [client, served];
      const sent = pour(writer, total);
      const stalledAt = await untilStalled(writer);
      assert.ok(stalledAt < 64 * MIB, `${stalledAt} bytes went nowhere`);
      const more = (await residentBytes(gateway)) - memory;
      assert.ok(more < 64 * MIB, `${more} bytes more in memory`);

      const [other, otherServed] = await bulkTunnel();
      const [otherSent, otherHeard] = await Promise.all([pour(other, 8 * MIB), drain(otherServed, 8 * MIB)]);
      assert.equal(otherHeard, otherSent);
      assert.equal(writer.bytesWritten < total, true);
      other.destroy();

      assert.equal(await drain(reader, total), await sent);
      client.destroy();
    });
  }
});

test('16 MiB each way at once arrive unchanged', async () => {
  const [client, served] = await bulkTunnel();
  const [up, upHeard, down, downHeard] = await Promise.all([
    pour(client, 16 * MIB),
    drain(served, 16 * MIB),
    pour(served, 16 * MIB),
    drain(client, 16 * MIB),
  ]);
  assert.deepEqual([upHeard, downHeard], [up, down]);
  client.destroy();
});

/** Keeps no bytes, and reads only on demand. */
class BulkBackend implements AsyncDisposable {
  readonly port: number;
  readonly sockets: Socket[] = [];
  readonly #server = createServer({ allowHalfOpen: true, pauseOnConnect: true });

  private constructor(port: number, server: ReturnType<typeof createServer>) {
    this.port = port;
    this.#server = server;
  }

  static async start(): Promise<BulkBackend> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const started = new BulkBackend((server.address() as { port: number }).port, server);
    server.on('connection', socket => {
      socket.on('error', () => {});
      started.sockets.push(socket);
    });
    return started;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** A tunnel with both sides paused, after the hello. */
async function bulkTunnel(): Promise<[client: Socket, served: Socket]> {
  const before = bulk.sockets.length;
  const client = connect({ port: gateway.port, host: '127.0.0.1', allowHalfOpen: true });
  client.on('error', () => {});
  const first = hello('bulk.test');
  client.write(first);
  const served = await until('the backend to be reached', () => bulk.sockets[before]);
  await drain(served, first.length);
  return [client, served];
}

/** Writes that much in pieces of all sizes, as fast as possible; returns the checksum. */
async function pour(to: Socket, total: number): Promise<number> {
  const source = randomBytes(MIB);
  let sum = 0;
  for (let left = total, size = 1; left > 0; size = ((size * 7) % 262_139) + 1) {
    const piece = source.subarray(0, Math.min(size, left));
    sum = crc32(piece, sum);
    left -= piece.length;
    if (!to.write(piece)) await once(to, 'drain');
  }
  return sum;
}

/** Reads exactly that much, then stops; returns the checksum. */
function drain(from: Socket, total: number): Promise<number> {
  return new Promise(resolve => {
    let left = total;
    let sum = 0;
    const take = () => {
      for (let chunk: Buffer | null; left > 0 && (chunk = from.read()) !== null; ) {
        const mine = chunk.subarray(0, left);
        if (mine.length < chunk.length) from.unshift(chunk.subarray(left));
        sum = crc32(mine, sum);
        left -= mine.length;
      }
      if (left > 0) return;
      from.off('readable', take);
      resolve(sum);
    };
    from.on('readable', take);
    take();
  });
}

/** Bytes that it has handed to the kernel when the kernel accepts no more. */
async function untilStalled(writer: Socket): Promise<number> {
  for (let before = -1; ; ) {
    const now = writer.bytesWritten - writer.writableLength;
    if (now === before) return now;
    before = now;
    await delay(300);
  }
}

async function residentBytes({ program }: Causeway): Promise<number> {
  const status = await readFile(`/proc/${program.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

async function startTlsEcho(name: string): Promise<AsyncDisposable & { readonly port: number }> {
  const { certFile, keyFile } = await certificateFor(name);
  const options = { cert: await readFile(certFile), key: await readFile(keyFile), ALPNProtocols: ['echo'] };
  const server = tls.createServer(options, socket => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as { port: number }).port,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}
