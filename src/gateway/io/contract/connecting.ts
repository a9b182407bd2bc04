// Contract of the I/O port: connect, its result, and what it leaves behind.

import assert from 'node:assert/strict';
import { formatIp } from '../../../wire/ip-address.ts';
import { AGAIN, FAILED, REFUSED, type SocketAddress, UNREACHABLE, WRITABLE } from '../reactor.ts';
import { dial, ip, serveOutside, socketDirectory, unix } from './outside.ts';
import { addressOf, endpoint, exchange } from './pair.ts';
import { type Adapter, contractTest, type ReactorThread } from './reactor-thread.ts';

export function connectingContract(adapter: Adapter): void {
  for (const host of ['127.0.0.1', '::1']) {
    contractTest(adapter, `connect() to ${host} reports success by WRITABLE`, async start => {
      await using server = await serveOutside({ host });
      const thread = start();
      const handle = await thread.value({ op: 'connect', address: ip(host, server.port) });
      await thread.event(handle, WRITABLE);
      const peer = await server.next();
      assert.ok((await thread.value({ op: 'descriptor', handle })) > 2);
      assert.equal(await addressOf(thread, 'peer', handle), endpoint(host, server.port));
      assert.equal(await addressOf(thread, 'local', handle), endpoint(host, peer.socket.remotePort));
      await exchange(thread, handle, peer);
      assert.equal(thread.eventsOf(handle) & FAILED, 0);
    });
  }

  contractTest(adapter, 'connect() to a unix socket reports success by WRITABLE', async start => {
    await using directory = await socketDirectory();
    await using server = await serveOutside({ path: directory.path('server') });
    const thread = start();
    const handle = await thread.value({ op: 'connect', address: unix(directory.path('server')) });
    await thread.event(handle, WRITABLE);
    await exchange(thread, handle, await server.next());
  });

  contractTest(
    adapter,
    'write() right after connect() takes nothing before the connection is established',
    async start => {
      await using server = await serveOutside();
      const thread = start();
      const address = ip('127.0.0.1', server.port);
      const [connected, written] = await thread.ask(
        { op: 'connect', address },
        { op: 'write', handle: 'last', bytes: Buffer.from('early ') },
      );
      assert.ok(written.value === AGAIN || written.value > 0, `${written.value}`);
      const early = written.value === AGAIN ? 0 : written.value;
      await thread.write(connected.value, Buffer.from('early bird').subarray(early));
      assert.equal((await (await server.next()).take(10)).toString(), 'early bird');
    },
  );

  contractTest(adapter, 'connect() that fails reports why, by FAILED or at once', async start => {
    await using directory = await socketDirectory();
    await using server = await serveOutside();
    const thread = start();
    // Nothing listens on the local port of a client, and nothing else can get it.
    using client = await dial({ host: '127.0.0.1', port: server.port });
    const closed = ip('127.0.0.1', client.socket.localPort);
    assert.equal(await whyFailed(thread, closed), REFUSED);
    assert.equal(await whyFailed(thread, unix(directory.path('missing'))), REFUSED);
    assert.equal(await whyFailed(thread, ip('255.255.255.255', 9)), UNREACHABLE);
  });

  contractTest(adapter, 'connect() closed at once reports nothing more', async start => {
    await using server = await serveOutside();
    await using directory = await socketDirectory();
    await using local = await serveOutside({ path: directory.path('server') });
    const thread = start();
    using client = await dial({ host: '127.0.0.1', port: server.port });
    await server.next();
    const closed = ip('127.0.0.1', client.socket.localPort);
    for (const address of [ip('127.0.0.1', server.port), unix(directory.path('server')), closed]) {
      for (const op of ['reset', 'close'] as const) {
        await thread.ask({ op: 'connect', address }, { op, handle: 'last' });
      }
    }
    // Disposing of the thread fails if an event came; this gives it time to come.
    for (const [address, { next }] of [
      [ip('127.0.0.1', server.port), server],
      [unix(directory.path('server')), local],
    ] as const) {
      const handle = await thread.value({ op: 'connect', address });
      await thread.event(handle, WRITABLE);
      await thread.write(handle, Buffer.from('!'));
      while ((await (await next()).take(1)).length === 0);
    }
  });
}

async function whyFailed(thread: ReactorThread, address: SocketAddress): Promise<number> {
  const handle = await thread.value({ op: 'connect', address });
  if (handle < 0) return handle;
  await thread.event(handle, FAILED);
  assert.equal(thread.eventsOf(handle, FAILED) & WRITABLE, 0, formatIp(address.address, 0));
  const [why] = await thread.ask({ op: 'failure', handle }, { op: 'close', handle });
  return why.value;
}
