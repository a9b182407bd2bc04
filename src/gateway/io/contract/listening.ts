// Contract of the I/O port: listen and accept, addresses, and exhausted handles.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { AGAIN, EXHAUSTED, IN_USE, NOT_AVAILABLE, READABLE, WRITABLE } from '../reactor.ts';
import { dial, dialRefused, ip, type Peer, serveOutside, socketDirectory, unix } from './outside.ts';
import { addressOf, endpoint, exchange } from './pair.ts';
import { type Adapter, contractTest } from './reactor-thread.ts';

export function listeningContract(adapter: Adapter): void {
  for (const [family, host, listenOn] of [
    ['IPv4', '127.0.0.1', ip('127.0.0.1')],
    ['IPv6', '::1', ip('::1')],
    ['both families, for IPv4', '127.0.0.1', ip('::', 0, true)],
    ['both families, for IPv6', '::1', ip('::', 0, true)],
  ] as const) {
    contractTest(adapter, `listen() and accept() on ${family}`, async start => {
      const thread = start();
      const listener = await thread.listen(listenOn);
      assert.ok(listener.handle >= 0 && listener.port > 0, `${listener.handle}, port ${listener.port}`);
      using client = await dial({ host, port: listener.port });
      const handle = await thread.accept(listener.handle);
      assert.notEqual(handle, listener.handle);
      assert.equal(await addressOf(thread, 'peer', handle), endpoint(host, client.socket.localPort));
      assert.equal(await addressOf(thread, 'local', handle), endpoint(host, listener.port));
      await exchange(thread, handle, client);
    });
  }

  contractTest(adapter, 'listen() on an IPv6 address accepts no IPv4 unless asked to', async start => {
    const { port } = await start().listen(ip('::'));
    (await dial({ host: '::1', port }))[Symbol.dispose]();
    assert.equal(await dialRefused({ host: '127.0.0.1', port }), 'ECONNREFUSED');
  });

  contractTest(adapter, 'listen() and accept() on a unix socket, which has no address', async start => {
    await using directory = await socketDirectory();
    const path = directory.path('listener');
    const thread = start();
    const listener = await thread.listen(unix(path));
    using client = await dial({ path });
    const handle = await thread.accept(listener.handle);
    assert.equal(await addressOf(thread, 'peer', handle), '[::]:0');
    assert.equal(await addressOf(thread, 'local', handle), '[::]:0');
    await exchange(thread, handle, client);
  });

  for (const share of [false, true]) {
    contractTest(
      adapter,
      `listen() returns IN_USE on a foreign port, ${share ? 'shared' : 'unshared'}`,
      async start => {
        await using foreign = await serveOutside();
        const thread = start({ share });
        assert.equal((await thread.listen(ip('127.0.0.1', foreign.port))).handle, IN_USE);
        assert.ok((await thread.listen(ip('127.0.0.1'))).handle >= 0);
      },
    );
  }

  contractTest(adapter, 'listen() returns an error code for an address that is not ours', async start => {
    await using directory = await socketDirectory();
    const thread = start();
    assert.equal((await thread.listen(ip('203.0.113.7'))).handle, NOT_AVAILABLE);
    assert.equal((await thread.listen(ip('2001:db8::7'))).handle, NOT_AVAILABLE);
    for (const path of [directory.path('missing/socket'), directory.path('x'.repeat(200))]) {
      const { handle } = await thread.listen(unix(path));
      assert.ok(handle < AGAIN, `${handle} for ${path}`);
    }
  });

  contractTest(adapter, 'accept() returns AGAIN when no connection is waiting', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'));
    assert.equal(await thread.value({ op: 'accept', handle: listener.handle }), AGAIN);
    using client = await dial({ host: '127.0.0.1', port: listener.port });
    await thread.event(listener.handle, READABLE);
    const handle = await thread.accept(listener.handle);
    assert.equal(await thread.value({ op: 'accept', handle: listener.handle }), AGAIN);
    await exchange(thread, handle, client);
  });

  contractTest(
    adapter,
    'accept() returns all connections that queued up meanwhile, each once',
    async start => {
      const thread = start();
      const listener = await thread.listen(ip('127.0.0.1'));
      await using stack = new AsyncDisposableStack();
      const ports = new Set<string>();
      await thread.whileBlocked(async () => {
        for (let i = 0; i < 100; i++) {
          const client = stack.use(await dial({ host: '127.0.0.1', port: listener.port }));
          ports.add(endpoint('127.0.0.1', client.socket.localPort));
        }
      });
      for (let i = 0; i < 100; i++) {
        ports.delete(await addressOf(thread, 'peer', await thread.accept(listener.handle)));
      }
      assert.deepEqual([...ports], []);
    },
  );

  contractTest(adapter, 'quiesce() leaves earlier connections to be accepted', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'));
    const clients: Peer[] = [];
    await thread.whileBlocked(async () => {
      for (let i = 0; i < 10; i++) clients.push(await dial({ host: '127.0.0.1', port: listener.port }));
    });
    await thread.ask({ op: 'quiesce', handle: listener.handle });
    for (const client of clients) {
      await client.send('here');
      const handle = await thread.accept(listener.handle);
      assert.equal((await thread.readExactly(handle, 4)).toString(), 'here');
    }
  });

  contractTest(
    adapter,
    'close() of a listener frees its port and leaves accepted connections open',
    async start => {
      const thread = start();
      const listener = await thread.listen(ip('127.0.0.1'));
      using accepted = await dial({ host: '127.0.0.1', port: listener.port });
      const handle = await thread.accept(listener.handle);
      assert.equal(await thread.value({ op: 'accept', handle: listener.handle }), AGAIN);
      using waiting = await dial({ host: '127.0.0.1', port: listener.port });
      await thread.event(listener.handle, READABLE);
      await thread.ask({ op: 'close', handle: listener.handle });
      assert.notEqual((await waiting.takeAll()).end, undefined);
      assert.equal(await dialRefused({ host: '127.0.0.1', port: listener.port }), 'ECONNREFUSED');
      await exchange(thread, handle, accepted);
      const again = await thread.listen(ip('127.0.0.1', listener.port));
      assert.ok(again.handle >= 0, `${again.handle}`);
      assert.equal(again.port, listener.port);
      using next = await dial({ host: '127.0.0.1', port: listener.port });
      await exchange(thread, await thread.accept(again.handle), next);
    },
  );

  contractTest(
    adapter,
    'listen() takes a socket that another has open, whose waiting connections survive the close of either',
    async start => {
      const [old, next, last] = [start(), start(), start()];
      const listener = await old.listen(ip('127.0.0.1'));
      const descriptor = await old.value({ op: 'descriptor', handle: listener.handle });
      const taken = await next.listen({ ...ip('127.0.0.1', listener.port), descriptor });
      assert.ok(taken.handle >= 0, `${taken.handle}`);
      assert.equal(taken.port, listener.port);
      const late = await last.listen({ ...ip('127.0.0.1', listener.port), descriptor });
      await last.ask({ op: 'close', handle: late.handle });
      await old.ask({ op: 'close', handle: listener.handle });
      for (let i = 0; i < 10; i++) {
        using client = await dial({ host: '127.0.0.1', port: listener.port });
        await exchange(next, await next.accept(taken.handle), client);
      }
      await next.ask({ op: 'close', handle: taken.handle });
      assert.equal(await dialRefused({ host: '127.0.0.1', port: listener.port }), 'ECONNREFUSED');
    },
  );

  contractTest(adapter, 'listen() returns an error code for a descriptor that is not open', async start => {
    const { handle } = await start().listen({ ...ip('127.0.0.1'), descriptor: 100_000 });
    assert.ok(handle < AGAIN, `${handle}`);
  });

  contractTest(
    adapter,
    'EXHAUSTED when all handles are taken, and service resumes when some are free',
    async start => {
      await using directory = await socketDirectory();
      const path = directory.path('listener');
      // Where handles are descriptors, this process has many already; so use up the room instead of counting.
      const capacity = 256;
      const thread = start({ capacity });
      const listener = await thread.listen(unix(path));
      await using elsewhere = await serveOutside();
      await using stack = new AsyncDisposableStack();
      const served: { handle: number; client: Peer }[] = [];
      for (;;) {
        const client = stack.use(await dial({ path }));
        const handle = await thread.accept(listener.handle);
        if (handle === EXHAUSTED) {
          await client.close();
          break;
        }
        assert.ok(handle >= 0 && handle < capacity, `${handle}`);
        served.push({ handle, client });
      }
      assert.ok(served.length < capacity);
      // The rejected client freed a descriptor or two, and the process may close others.
      const untilExhausted = async (open: () => Promise<number>) => {
        for (let tries = 0; tries < 32; tries++) if ((await open()) === EXHAUSTED) return;
        assert.fail('32 more handles than there are');
      };
      await untilExhausted(() => thread.value({ op: 'connect', address: ip('127.0.0.1', elsewhere.port) }));
      await untilExhausted(async () => (await thread.listen(ip('127.0.0.1'))).handle);
      for (const { handle, client } of served.splice(0, 8)) {
        await client.close();
        await thread.ask({ op: 'close', handle });
      }
      const client = stack.use(await dial({ path }));
      await client.send('at last');
      let text = '';
      while (text === '') {
        // A client that stayed in the backlog comes first; it has left without sending anything.
        const handle = await thread.accept(listener.handle);
        assert.ok(handle >= 0, `${handle}`);
        text = (await thread.readExactly(handle, 7)).toString();
      }
      assert.equal(text, 'at last');
      await exchange(thread, served[0].handle, served[0].client);
    },
  );

  contractTest(
    adapter,
    'keepalive() applies to connections accepted from then on, and to those passed to keepAlive()',
    async start => {
      const thread = start();
      const listener = await thread.listen(ip('127.0.0.1'));
      await using server = await serveOutside();
      for (const ms of [0, 60_000, 0]) {
        await thread.ask({ op: 'keepalive', ms });
        using client = await dial({ host: '127.0.0.1', port: listener.port });
        await thread.accept(listener.handle);
        const handle = await thread.value({ op: 'connect', address: ip('127.0.0.1', server.port) });
        await thread.event(handle, WRITABLE);
        await thread.ask({ op: 'keepAlive', handle });
        const local = await thread.value({ op: 'local', handle });
        for (const [from, to] of [
          [listener.port, client.socket.localPort ?? 0],
          [local, server.port],
        ]) {
          const left = keepaliveTimer(from, to);
          if (ms === 0) assert.equal(left, undefined);
          else assert.ok(left !== undefined && left > 0 && left <= ms, `${left}`);
        }
      }
    },
  );
}

/** Milliseconds until the kernel's keepalive timer of a loopback connection fires, if it runs. */
function keepaliveTimer(local: number, remote: number): number | undefined {
  const hex = (port: number) => `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const row = readFileSync('/proc/net/tcp', 'latin1')
    .split('\n')
    .find(line => line.includes(` ${hex(local)} ${hex(remote)} `));
  assert.ok(row !== undefined, `${local} to ${remote}`);
  // proc(5): `tr:tm->when`; 02 is the keepalive timer, and the time is in hundredths of a second.
  const [timer, when] = row.trim().split(/\s+/)[5].split(':');
  return timer === '02' ? Number.parseInt(when, 16) * 10 : undefined;
}
