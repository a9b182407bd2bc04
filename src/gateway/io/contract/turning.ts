// Contract of the I/O port: the clock and turn(), messages, stop(), and several threads on one port.

import assert from 'node:assert/strict';
import { AGAIN, READABLE, WRITABLE } from '../reactor.ts';
import { dial, digestOf, ip, type Peer, serveOutside } from './outside.ts';
import { fill, pair } from './pair.ts';
import { type Adapter, contractTest, type ReactorThread } from './reactor-thread.ts';

const DAY_MS = 86_400_000;

export function turningContract(adapter: Adapter): void {
  contractTest(adapter, 'wakeAt() calls turn() at that time, not before, and once', async start => {
    const thread = start();
    const times = [-1000, 0, 20, ...Array.from({ length: 40 }, (_, i) => (i * 0.37) % 3)];
    for (const [i, after] of times.entries()) {
      await thread.ask({ op: 'wakeAt', after });
      await thread.until(() => thread.turns.length > i);
      assert.ok(
        thread.turns[i].at >= thread.turns[i].asked,
        `${thread.turns[i].at - thread.turns[i].asked} ms`,
      );
    }
    assert.equal(await thread.value({ op: 'turns' }), times.length);
  });

  contractTest(adapter, 'wakeAt() called again replaces the time, to later and to sooner', async start => {
    const thread = start();
    await thread.ask({ op: 'wakeAt', after: 1 }, { op: 'wakeAt', after: 40 });
    await thread.until(() => thread.turns.length > 0);
    assert.ok(thread.turns[0].at >= thread.turns[0].asked);
    await thread.ask({ op: 'wakeAt', after: DAY_MS }, { op: 'wakeAt', after: 1 });
    await thread.until(() => thread.turns.length > 1);
  });

  contractTest(adapter, 'wakeAt() with Infinity or many days ahead does not call turn()', async start => {
    const thread = start();
    const other = start();
    for (const after of [Number.POSITIVE_INFINITY, 40 * DAY_MS]) {
      await thread.ask({ op: 'wakeAt', after: 1 }, { op: 'wakeAt', after });
      const before = other.turns.length;
      await other.ask({ op: 'wakeAt', after: 30 });
      await other.until(() => other.turns.length > before);
      assert.equal(await thread.value({ op: 'turns' }), 0);
    }
  });

  contractTest(adapter, 'soon() calls turn() once, however often it was requested', async start => {
    const thread = start();
    await thread.ask({ op: 'soon', times: 1 }, { op: 'soon', times: 1 });
    await thread.until(() => thread.turns.length > 0);
    for (let i = 0; i < 20; i++) await thread.ask();
    assert.equal(await thread.value({ op: 'turns' }), 1);
  });

  contractTest(adapter, 'soon() from every turn() starves neither sockets nor messages', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'), { kind: 'echo' });
    await thread.ask({ op: 'soon', times: 1_000_000_000 });
    using peer = await dial({ host: '127.0.0.1', port: listener.port });
    for (let i = 0; i < 20; i++) {
      await peer.send('still there?');
      assert.equal((await peer.take(12)).toString(), 'still there?');
      const before = await thread.value({ op: 'turns' });
      while ((await thread.value({ op: 'turns' })) === before);
    }
  });

  contractTest(adapter, 'now() is one clock for all threads, and does not go back', async start => {
    const threads = [start(), start()];
    const last = [0, 0];
    for (let i = 0; i < 20; i++) {
      const now = await threads[i % 2].value({ op: 'now' });
      assert.ok(now >= last[i % 2], `${last[i % 2] - now} ms back`);
      last[i % 2] = now;
    }
    // A reactor may read the clock once per turn, however long that takes; a different clock would be far off.
    assert.ok(Math.abs(last[0] - last[1]) < 60_000, `${last[0]} and ${last[1]}`);
  });

  contractTest(adapter, 'messages all arrive in order, also while bytes flow', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'), { kind: 'echo' });
    using peer = await dial({ host: '127.0.0.1', port: listener.port });
    const size = 16 * 1024 * 1024;
    const flow = Promise.all([peer.takeAll(), peer.sendPattern(size)]);
    const order: number[] = [];
    const asked = Array.from({ length: 1000 }, (_, i) => thread.ask({ op: 'now' }).then(() => order.push(i)));
    await Promise.all(asked);
    assert.deepEqual(order, [...order.keys()]);
    assert.equal((await flow)[0].digest, digestOf(size));
  });

  contractTest(
    adapter,
    'stop() closes everything, reports nothing more, and lets the thread end',
    async start => {
      await using server = await serveOutside();
      const { thread, peer } = await pair(start());
      const handle = await thread.value({ op: 'connect', address: ip('127.0.0.1', server.port) });
      await thread.event(handle, WRITABLE);
      const listener = await thread.listen(ip('127.0.0.1'));
      assert.equal(await thread.value({ op: 'accept', handle: listener.handle }), AGAIN);
      const waiting = await dial({ host: '127.0.0.1', port: listener.port });
      await thread.event(listener.handle, READABLE);
      await thread.ask({ op: 'wakeAt', after: DAY_MS });
      // One more listener is still being opened.
      assert.equal(await thread.stop({ op: 'open', address: ip('127.0.0.1') }), 0);
      assert.equal((await peer.takeAll()).end, 'end');
      assert.equal((await (await server.next()).takeAll()).end, 'end');
      assert.equal((await waiting.takeAll()).count, 0);
    },
  );

  contractTest(adapter, 'stop() delivers the bytes that write() took', async start => {
    const { thread, handle, peer } = await pair(start());
    const taken = await fill(thread, handle);
    const stopped = thread.stop();
    assert.deepEqual(await peer.takeAll(), { count: taken, digest: digestOf(taken), end: 'end' });
    assert.equal(await stopped, 0);
  });

  contractTest(adapter, 'threads that share a port all get connections', async start => {
    const threads = [start({ share: true }), start({ share: true })];
    const first = await threads[0].listen(ip('::', 0, true));
    const second = await threads[1].listen(ip('::', first.port, true));
    assert.ok(second.handle >= 0, `${second.handle}`);
    const counts = [greetAll(threads[0], first.handle), greetAll(threads[1], second.handle)];
    const clients: Peer[] = [];
    for (let i = 0; i < 64; i++)
      clients.push(await dial({ host: i % 2 ? '127.0.0.1' : '::1', port: first.port }));
    for (const client of clients) assert.equal((await client.take(1)).toString(), '!');
    // The chance of all 64 on one side is one in 2^63.
    assert.ok(
      counts.every(({ count }) => count > 0),
      counts.map(({ count }) => count).join(' and '),
    );
    assert.equal(counts[0].count + counts[1].count, 64);
  });
}

/** Greets every connection, until the thread ends. */
function greetAll(thread: ReactorThread, listener: number): { count: number } {
  const greeted = { count: 0 };
  const greet = async () => {
    for (;;) {
      const handle = await thread.accept(listener);
      greeted.count++;
      await thread.write(handle, Buffer.from('!'));
    }
  };
  // The only possible error is that the thread has ended: a client that is not greeted fails the test.
  void greet().catch(() => {});
  return greeted;
}
