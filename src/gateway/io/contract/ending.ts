// Contract of the I/O port: shutdown, reset and close, from either side, and reused handles.

import assert from 'node:assert/strict';
import { AGAIN, FAILED, HUNG_UP, NOT_AVAILABLE, RESET, WRITABLE } from '../reactor.ts';
import { pattern } from './messages.ts';
import { dial, digestOf, ip, type Peer, serveOutside, socketDirectory, unix } from './outside.ts';
import { fill, pair } from './pair.ts';
import { type Adapter, contractTest } from './reactor-thread.ts';

const MIB = 1024 * 1024;
const sink = { kind: 'sink', spaces: [64 * 1024] } as const;

export function endingContract(adapter: Adapter): void {
  contractTest(adapter, 'shutdown() sends FIN after all bytes, and reading continues', async start => {
    const { thread, handle, peer } = await pair(start());
    const source = { kind: 'source', size: 8 * MIB, piece: 100_000, last: 'shutdown' } as const;
    await thread.ask({ op: 'serve', handle, behaviour: source });
    assert.deepEqual(await peer.takeAll(), { count: 8 * MIB, digest: digestOf(8 * MIB), end: 'end' });
    assert.equal((await thread.outcome(handle)).end, 0);
    await thread.ask({ op: 'serve', handle, behaviour: sink });
    await peer.sendPattern(2 * MIB);
    const { count, digest, end } = await thread.outcome(handle);
    assert.deepEqual({ count, digest, end }, { count: 2 * MIB, digest: digestOf(2 * MIB), end: 0 });
  });

  contractTest(adapter, 'writing continues after the FIN of the peer', async start => {
    const { thread, handle, peer } = await pair(start());
    await thread.ask({ op: 'serve', handle, behaviour: sink });
    await peer.sendPattern(2 * MIB);
    const { count, digest, end } = await thread.outcome(handle);
    assert.deepEqual({ count, digest, end }, { count: 2 * MIB, digest: digestOf(2 * MIB), end: 0 });
    const source = { kind: 'source', size: 8 * MIB, piece: 100_000, last: 'close' } as const;
    await thread.ask({ op: 'serve', handle, behaviour: source });
    assert.deepEqual(await peer.takeAll(), { count: 8 * MIB, digest: digestOf(8 * MIB), end: 'end' });
  });

  contractTest(adapter, 'write() after shutdown() returns an error', async start => {
    const { thread, handle, peer } = await pair(start());
    const [, written] = await thread.ask(
      { op: 'shutdown', handle },
      { op: 'write', handle, bytes: Buffer.from('too late') },
    );
    assert.ok(written.value < AGAIN, `${written.value}`);
    assert.equal((await peer.takeAll()).count, 0);
  });

  for (const kind of ['TCP', 'unix'] as const) {
    contractTest(adapter, `close() on ${kind} delivers all bytes that write() took`, async start => {
      await using directory = await socketDirectory();
      const { thread, handle, peer } = await pair(
        start(),
        kind === 'unix' ? directory.path('listener') : undefined,
      );
      const taken = await fill(thread, handle);
      await thread.ask({ op: 'close', handle });
      assert.deepEqual(await peer.takeAll(), { count: taken, digest: digestOf(taken), end: 'end' });
    });
  }

  contractTest(adapter, 'reset() reaches the peer as a reset', async start => {
    const { thread, handle, peer } = await pair(start());
    await thread.ask({ op: 'reset', handle });
    assert.equal((await peer.takeAll()).end, 'ECONNRESET');
  });

  contractTest(adapter, 'reset() and close() of a closed handle do nothing', async start => {
    const { thread, handle, peer } = await pair(start());
    await thread.ask({ op: 'close', handle }, { op: 'reset', handle }, { op: 'close', handle });
    assert.equal((await peer.takeAll()).end, 'end');
  });

  contractTest(adapter, 'reset() does not wait for a peer that does not read', async start => {
    const { thread, handle, peer } = await pair(start());
    const taken = await fill(thread, handle);
    await thread.ask({ op: 'reset', handle });
    const { count, end } = await peer.takeAll();
    assert.equal(end, 'ECONNRESET');
    assert.ok(count < taken, `${count} of ${taken} bytes came`);
  });

  contractTest(adapter, 'reset() after the FIN of the peer reaches it', async start => {
    const { thread, handle, peer } = await pair(start());
    peer.socket.end();
    assert.equal((await thread.read(handle, 10)).value, 0);
    await thread.ask({ op: 'reset', handle });
    assert.equal((await peer.takeAll()).end, 'ECONNRESET');
  });

  contractTest(adapter, 'reset() right after shutdown() leaves nothing open', async start => {
    const { thread, handle, peer } = await pair(start());
    await thread.ask({ op: 'shutdown', handle }, { op: 'reset', handle });
    // The FIN may arrive first; the connection is gone all the same.
    await peer.takeAll();
    await assert.rejects(async () => {
      for (;;) await peer.send('anybody?');
    });
  });

  contractTest(adapter, 'reset() of a unix socket ends it', async start => {
    await using directory = await socketDirectory();
    const { thread, handle, peer } = await pair(start(), directory.path('listener'));
    await thread.ask({ op: 'reset', handle });
    assert.equal((await peer.takeAll()).count, 0);
  });

  contractTest(
    adapter,
    'a reset by the peer is reported by FAILED, and writing returns an error',
    async start => {
      const { thread, handle, peer } = await pair(start());
      await peer.reset();
      await thread.event(handle, FAILED);
      const { value } = await thread.bytes({ op: 'write', handle, bytes: Buffer.from('hello?') });
      assert.ok(value < AGAIN, `${value}`);
    },
  );

  for (const [meanwhile, size] of [
    ['waiting', 1],
    ['waiting', 20_000],
    ['busy', 1],
    ['busy', 20_000],
  ] as const) {
    contractTest(
      adapter,
      `a reset right after bytes leaves them readable, and is reported: ${size}, ${meanwhile}`,
      async start => {
        const thread = start();
        const listener = await thread.listen(ip('127.0.0.1'));
        for (let i = 0; i < 10; i++) {
          const peer = await dial({ host: '127.0.0.1', port: listener.port });
          const handle = await thread.accept(listener.handle);
          await thread.ask({ op: 'serve', handle, behaviour: sink });
          const act = async () => {
            await peer.send(pattern(0, size));
            await peer.reset();
          };
          await (meanwhile === 'busy' ? thread.whileBlocked(act) : act());
          const { count, digest, end } = await thread.outcome(handle);
          assert.deepEqual({ count, digest, end }, { count: size, digest: digestOf(size), end: RESET });
          await thread.ask({ op: 'close', handle });
        }
      },
    );
  }

  contractTest(adapter, 'a reset by the peer ends a waiting write', async start => {
    const { thread, handle, peer } = await pair(start());
    const source = { kind: 'source', size: 64 * MIB, piece: 64 * 1024, last: 'close' } as const;
    await thread.ask({ op: 'serve', handle, behaviour: source });
    for (let i = 0; i < 50; i++) await thread.ask();
    await peer.reset();
    const { count, end } = await thread.outcome(handle);
    assert.ok(end < AGAIN && count < 64 * MIB, `${end} after ${count} bytes`);
  });

  for (const how of ['reset', 'close'] as const) {
    contractTest(adapter, `a handle reports nothing after ${how}(), whatever the peer does`, async start => {
      const thread = start();
      const listener = await thread.listen(ip('127.0.0.1'));
      for (const act of ['send', 'fin', 'reset'] as const) {
        const peer = await dial({ host: '127.0.0.1', port: listener.port });
        const handle = await thread.accept(listener.handle);
        await fill(thread, handle);
        await thread.ask({ op: how, handle });
        if (act === 'fin') peer.socket.end();
        else if (act === 'send') peer.socket.write('are you there?');
        else await peer.reset();
        await peer.takeAll();
        // Disposing of the thread fails if an event came; this gives it time to come.
        for (let i = 0; i < 20; i++) await thread.ask();
      }
    });
  }

  for (const how of ['reset', 'close'] as const) {
    contractTest(
      adapter,
      `events of closed and reused handles are dropped, after ${how} by the peers`,
      async start => {
        await using server = await serveOutside();
        const thread = start();
        const listener = await thread.listen(ip('127.0.0.1'));
        const clients: Peer[] = [];
        const group: number[] = [];
        for (let i = 0; i < 20; i++) {
          clients.push(await dial({ host: '127.0.0.1', port: listener.port }));
          const handle = await thread.accept(listener.handle);
          assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
          group.push(handle);
        }
        const to = ip('127.0.0.1', server.port);
        await thread.ask({ op: 'serve', handle: group[0], behaviour: { kind: 'replace', group, to } });
        // All events are pending at once; the first one closes all handles and opens as many.
        await thread.whileBlocked(async () => {
          for (const client of clients) {
            await client.send('x');
            await client[how]();
          }
        });
        await thread.until(() => thread.replaced !== undefined);
        const replaced = thread.replaced ?? [];
        assert.ok(replaced.every(handle => handle >= 0));
        assert.ok(
          replaced.some(handle => group.includes(handle)),
          'no number was reused',
        );
        for (const handle of replaced) {
          await thread.event(handle, WRITABLE);
          assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
          await thread.write(handle, Buffer.from('fine'));
          assert.equal((await (await server.next()).take(4)).toString(), 'fine');
        }
        for (const handle of replaced) assert.equal(thread.eventsOf(handle) & (FAILED | HUNG_UP), 0);
      },
    );
  }

  contractTest(adapter, 'a reused handle has nothing of its former owner', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'));
    const numbers: number[] = [];
    for (const before of ['unread', 'fin', 'reset', 'stalled'] as const) {
      for (const owner of ['former', 'next']) {
        const peer = await dial({ host: '127.0.0.1', port: listener.port });
        const handle = await thread.accept(listener.handle);
        numbers.push(handle);
        assert.equal(await thread.value({ op: 'read', handle, space: 10 }), AGAIN);
        await thread.write(handle, Buffer.from('welcome'));
        assert.equal((await peer.take(7)).toString(), 'welcome');
        if (owner === 'former') {
          if (before === 'unread') await peer.send('not for others');
          else if (before === 'fin') peer.socket.end();
          else if (before === 'reset') await peer.reset();
          if (before === 'stalled') await fill(thread, handle);
          else await thread.read(handle, 5);
        }
        await thread.ask({ op: 'close', handle });
        await peer.close();
      }
    }
    assert.ok(new Set(numbers).size < numbers.length, 'no number was reused');
  });

  contractTest(adapter, 'opening and closing repeatedly leaks no handle', async start => {
    await using directory = await socketDirectory();
    const path = directory.path('server');
    await using server = await serveOutside({ path });
    const capacity = 256;
    const thread = start({ capacity });
    const address = unix(path);
    for (let round = 0; round < 2 * capacity; round++) {
      // One is closed at once, the other once it is connected.
      const [first, , second] = await thread.ask(
        { op: 'connect', address },
        { op: 'close', handle: 'last' },
        { op: 'connect', address },
      );
      assert.ok(first.value >= 0 && second.value >= 0, `${first.value}, ${second.value} in round ${round}`);
      await thread.write(second.value, Buffer.from('!'));
      await thread.ask({ op: 'close', handle: second.value });
      const listener = await thread.listen(ip('127.0.0.1'));
      await thread.ask({ op: 'close', handle: listener.handle });
      assert.equal((await thread.listen(ip('203.0.113.7'))).handle, NOT_AVAILABLE);
      for (let received = 0; received === 0; ) {
        const peer = await server.next();
        received = (await peer.take(1)).length;
        await peer.close();
      }
    }
  });
}
