// Contract of the I/O port: read and write. Every byte once and in order, readiness after AGAIN, bounded memory.

import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { AGAIN, HUNG_UP, READABLE } from '../reactor.ts';
import { type Outcome, pattern } from './messages.ts';
import { dial, digestOf, ip, type Peer, serveOutside, socketDirectory } from './outside.ts';
import { pair } from './pair.ts';
import { type Adapter, contractTest } from './reactor-thread.ts';

const MIB = 1024 * 1024;
const BULK = 32 * MIB;

export function flowingContract(adapter: Adapter): void {
  contractTest(adapter, 'read() returns AGAIN, and READABLE comes with the bytes', async start => {
    const { thread, handle, peer } = await pair(start());
    assert.equal(await thread.value({ op: 'read', handle, space: 10 }), AGAIN);
    for (const word of ['one', 'two', 'three']) {
      await peer.send(word);
      await thread.event(handle, READABLE);
      assert.equal((await thread.readExactly(handle, word.length)).toString(), word);
      assert.equal(await thread.value({ op: 'read', handle, space: 10 }), AGAIN);
    }
  });

  contractTest(adapter, 'read() returns bytes that came before the connection was accepted', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'));
    using peer = await dial({ host: '127.0.0.1', port: listener.port });
    await thread.whileBlocked(() => peer.send('early'));
    const handle = await thread.accept(listener.handle);
    assert.equal((await thread.readExactly(handle, 5)).toString(), 'early');
  });

  contractTest(
    adapter,
    'read() that does not fill its space has taken everything, or an event follows',
    async start => {
      const { thread, handle, peer } = await pair(start());
      await peer.send('a'.repeat(100));
      assert.equal((await thread.read(handle, 60)).value, 60);
      for (const word of ['b', 'c']) {
        await peer.send(word.repeat(50));
        // Gives the adapter time to take from the kernel what it takes on its own.
        for (let i = 0; i < 20; i++) await thread.ask();
      }
      let text = '';
      while (text.length < 140) {
        const { value, bytes } = await thread.bytes({ op: 'read', handle, space: 1000 });
        const seen = thread.eventCount(handle);
        text += Buffer.from(bytes).toString();
        if (value < 1000 && text.length < 140) await thread.until(() => thread.eventCount(handle) > seen);
      }
      assert.equal(text, `${'a'.repeat(40)}${'b'.repeat(50)}${'c'.repeat(50)}`);
      assert.equal(await thread.value({ op: 'read', handle, space: 1000 }), AGAIN);
    },
  );

  contractTest(adapter, 'read() returns every byte before FIN, then 0, repeatedly', async start => {
    const { thread, handle, peer } = await pair(start());
    await thread.whileBlocked(async () => {
      await peer.sendPattern(50_000);
    });
    const bytes = await thread.readExactly(handle, 60_000);
    assert.deepEqual(bytes, Buffer.from(pattern(0, 50_000)));
    for (let i = 0; i < 3; i++) assert.equal((await thread.read(handle, 10)).value, 0);
  });

  contractTest(
    adapter,
    'read() finds the end after the remaining bytes, by HUNG_UP or an event',
    async start => {
      const { thread, handle, peer } = await pair(start());
      await thread.whileBlocked(() => peer.sendPattern(100));
      assert.equal((await thread.read(handle, 60)).value, 60);
      for (let i = 0; i < 20; i++) await thread.ask();
      assert.equal(await thread.value({ op: 'read', handle, space: 1000 }), 40);
      const seen = thread.eventCount(handle);
      if ((thread.eventsOf(handle) & HUNG_UP) === 0)
        await thread.until(() => thread.eventCount(handle) > seen);
      assert.equal((await thread.read(handle, 1000)).value, 0);
    },
  );

  contractTest(adapter, 'read() returns 0 after a FIN alone', async start => {
    const { thread, handle, peer } = await pair(start());
    assert.equal(await thread.value({ op: 'read', handle, space: 10 }), AGAIN);
    peer.socket.end();
    assert.equal((await thread.read(handle, 10)).value, 0);
  });

  contractTest(adapter, 'read() with any buffer sizes returns the same bytes', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'));
    const spaces = fc.array(fc.oneof(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 100_000 })), {
      minLength: 1,
      maxLength: 5,
    });
    // In thousandths of what a few reads take, so that a one-byte buffer need not read a megabyte.
    const pieces = fc.array(fc.integer({ min: 1, max: 1000 }), { maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(spaces, pieces, fc.boolean(), async (spaces, pieces, pauses) => {
        using peer = await dial({ host: '127.0.0.1', port: listener.port });
        const handle = await thread.accept(listener.handle);
        await thread.ask({ op: 'serve', handle, behaviour: { kind: 'sink', spaces } });
        let at = 0;
        for (const part of pieces) {
          const piece = Math.ceil(Math.min(80_000, 20 * Math.max(...spaces)) * (part / 1000));
          await peer.send(pattern(at, piece));
          at += piece;
          if (pauses) await thread.ask();
        }
        peer.socket.end();
        assert.deepEqual(await thread.outcome(handle), received(at));
        await thread.ask({ op: 'close', handle });
      }),
      { numRuns: 40 },
    );
  });

  for (const kind of ['TCP', 'unix'] as const) {
    contractTest(
      adapter,
      `write() to a stalled ${kind} peer takes little, and continues when it reads`,
      async start => {
        await using directory = await socketDirectory();
        const { thread, handle, peer } = await pair(
          start(),
          kind === 'unix' ? directory.path('listener') : undefined,
        );
        const size = 64 * MIB;
        const source = { kind: 'source', size, piece: 64 * 1024, last: 'shutdown' } as const;
        await thread.ask({ op: 'serve', handle, behaviour: source });
        // Give it many chances to take more.
        for (let i = 0; i < 200; i++) await thread.ask();
        const taken = await thread.value({ op: 'progress', handle });
        // The kernel's buffers: tcp_wmem and tcp_rmem, usually 4 and 6 MiB; a unix socket has 208 KiB.
        const limit = kind === 'unix' ? MIB : 16 * MIB;
        assert.ok(taken > 0 && taken <= limit, `took ${taken} bytes`);
        assert.deepEqual(await peer.takeAll(), { count: size, digest: digestOf(size), end: 'end' });
        const { count, end, stalls } = await thread.outcome(handle);
        assert.deepEqual({ count, end }, { count: size, end: 0 });
        assert.ok(stalls > 0);
      },
    );
  }

  contractTest(adapter, 'write() before and after AGAIN leaves no gap and repeats nothing', async start => {
    const { thread, handle, peer } = await pair(start());
    let written = 0;
    for (;;) {
      const value = await thread.value({ op: 'write', handle, bytes: pattern(written, 300_000) });
      if (value === AGAIN) break;
      assert.ok(value > 0 && value <= 300_000, `${value}`);
      written += value;
    }
    const [all] = await Promise.all([
      peer.takeAll(),
      thread.write(handle, pattern(written, 1_000_000)).then(() => thread.ask({ op: 'shutdown', handle })),
    ]);
    assert.deepEqual(all, { count: written + 1_000_000, digest: digestOf(written + 1_000_000), end: 'end' });
  });

  contractTest(adapter, 'bulk data both ways at once, with a slow reader, arrives intact', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'), { kind: 'echo' });
    using fast = await dial({ host: '127.0.0.1', port: listener.port });
    using slow = await dial({ host: '127.0.0.1', port: listener.port });
    const all = await Promise.all([
      fast.takeAll(),
      slow.takeAll(2),
      fast.sendPattern(BULK),
      slow.sendPattern(BULK),
    ]);
    for (const each of all.slice(0, 2)) {
      assert.deepEqual(each, { count: BULK, digest: digestOf(BULK), end: 'end' });
    }
  });

  contractTest(adapter, 'a tunnel passes every byte and both FINs, whatever both ends do', async start => {
    await using server = await serveOutside();
    const thread = start();
    const to = ip('127.0.0.1', server.port);
    const listener = await thread.listen(ip('127.0.0.1'), { kind: 'tunnel', to });
    const step = fc.record({
      side: fc.nat({ max: 1 }),
      does: fc.oneof(
        fc.record({ send: fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 400_000 })) }),
        fc.record({ take: fc.integer({ min: 1, max: 300_000 }) }),
        fc.record({ pause: fc.integer({ min: 1, max: 3 }) }),
        fc.constant('fin' as const),
      ),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 16, size: 'max' }), async steps => {
        using client = await dial({ host: '127.0.0.1', port: listener.port });
        const ends = [new End(client), new End(await server.next())];
        for (const { side, does } of steps) {
          if (does === 'fin') ends[side].fin();
          else if ('send' in does) ends[side].send(does.send);
          else if ('take' in does)
            await ends[side].take(Math.min(does.take, ends[1 - side].sent - ends[side].taken));
          else for (let i = 0; i < does.pause; i++) await turn();
        }
        for (const end of ends) end.fin();
        await Promise.all([ends[0].finish(ends[1].sent), ends[1].finish(ends[0].sent)]);
      }),
      { numRuns: 40 },
    );
  });
}

/** One end of a tunnel under test, with the counts of bytes sent and taken. */
class End {
  readonly #peer: Peer;
  sent = 0;
  taken = 0;

  constructor(peer: Peer) {
    this.#peer = peer;
  }

  /** Does not wait: bytes that the other end has not read yet stay in this process. */
  send(count: number): void {
    if (this.#peer.socket.writableEnded) return;
    this.#peer.socket.write(pattern(this.sent, count));
    this.sent += count;
  }

  fin(): void {
    this.#peer.socket.end();
  }

  async take(count: number): Promise<void> {
    const bytes = await this.#peer.take(count);
    assert.equal(bytes.length, count);
    assert.ok(bytes.equals(pattern(this.taken, count)), `differs within ${count} bytes from ${this.taken}`);
    this.taken += count;
  }

  async finish(sent: number): Promise<void> {
    await this.take(sent - this.taken);
    const { count, end } = await this.#peer.takeAll();
    assert.deepEqual({ count, end }, { count: 0, end: 'end' });
  }
}

function received(size: number): Outcome {
  return { count: size, digest: digestOf(size), end: 0, stalls: 0 };
}
