// Contract of the I/O port: a connection whose descriptor is lent to another thread, here the suite's own. An adapter
// that cannot lend returns an error code, and the handle is unchanged.

import assert from 'node:assert/strict';
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { AGAIN, FAILED, HUNG_UP, READABLE } from '../reactor.ts';
import { dial, ip, Peer } from './outside.ts';
import { exchange, pair } from './pair.ts';
import { type Adapter, contractTest, type ReactorThread } from './reactor-thread.ts';

export function lendingContract(adapter: Adapter): void {
  contractTest(
    adapter,
    'lend() passes on reading and writing, and reports nothing more here',
    async start => {
      const { thread, handle, peer } = await pair(start());
      using borrower = await borrow(thread, handle);
      if (borrower === undefined) return exchange(thread, handle, peer);
      const seen = thread.eventCount(handle);
      for (const [from, to] of [
        [peer, borrower],
        [borrower, peer],
      ]) {
        await from.send('a word');
        assert.equal((await to.take(6)).toString(), 'a word');
      }
      peer.socket.end();
      assert.equal((await borrower.takeAll()).end, 'end');
      for (let i = 0; i < 20; i++) await thread.ask();
      assert.equal(thread.eventCount(handle), seen);
    },
  );

  contractTest(
    adapter,
    'a reset by the peer is reported for a lent handle, even if nobody reads',
    async start => {
      const { thread, handle, peer } = await pair(start());
      const descriptor = await thread.value({ op: 'lend', handle });
      await peer.send('unread');
      await peer.reset();
      await thread.event(handle, FAILED);
      if (descriptor >= 0) await thread.ask({ op: 'discard', handle: descriptor });
    },
  );

  contractTest(adapter, 'lend() drops pending events', async start => {
    const thread = start();
    const listener = await thread.listen(ip('127.0.0.1'));
    const peers: Peer[] = [];
    const group: number[] = [];
    for (let i = 0; i < 20; i++) {
      peers.push(await dial({ host: '127.0.0.1', port: listener.port }));
      const handle = await thread.accept(listener.handle);
      assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
      group.push(handle);
    }
    await thread.ask({ op: 'serve', handle: group[0], behaviour: { kind: 'lend', group } });
    await thread.whileBlocked(async () => {
      for (const peer of peers) await peer.send('x');
    });
    await thread.until(() => thread.replaced !== undefined);
    for (let i = 0; i < 20; i++) await thread.ask();
    const lent = (thread.replaced ?? []).filter(descriptor => descriptor >= 0);
    const late = await thread.value({ op: 'progress', handle: group[0] });
    assert.ok(lent.length === 0 || late === 0, `${late} events came`);
    for (const descriptor of lent) await thread.ask({ op: 'discard', handle: descriptor });
  });

  contractTest(adapter, 'a lent handle reports events again once it is read', async start => {
    const { thread, handle, peer } = await pair(start());
    const borrower = await borrow(thread, handle);
    if (borrower === undefined) return;
    await borrower.close();
    await exchange(thread, handle, peer);
    assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
    peer.socket.end();
    await thread.event(handle, READABLE | HUNG_UP);
    assert.equal((await thread.read(handle, 1)).value, 0);
  });

  contractTest(adapter, 'a lent descriptor does not delay shutdown(), close() and reset()', async start => {
    const thread = start();
    for (const [how, end] of [
      ['shutdown', 'end'],
      ['close', 'end'],
      ['reset', 'ECONNRESET'],
    ] as const) {
      const { handle, peer } = await pair(thread);
      using borrower = await borrow(thread, handle);
      await thread.ask({ op: how, handle });
      assert.deepEqual([how, (await peer.takeAll()).end], [how, end]);
      if (how === 'reset' && borrower !== undefined)
        assert.equal((await borrower.takeAll()).end, 'ECONNRESET');
    }
  });

  contractTest(adapter, 'a handle that was lent, read again and closed reports nothing more', async start => {
    const { thread, handle, peer } = await pair(start());
    using borrower = await borrow(thread, handle);
    assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
    await thread.ask({ op: 'close', handle });
    peer.socket.on('error', () => {});
    peer.socket.end('are you there?');
    if (borrower !== undefined) assert.equal((await borrower.takeAll()).end, 'end');
    // Disposing of the thread fails if an event came; this gives it time to come.
    for (let i = 0; i < 20; i++) await thread.ask();
  });

  contractTest(adapter, 'discard() closes a descriptor that was never taken', async start => {
    const { thread, handle, peer } = await pair(start());
    const descriptor = await thread.value({ op: 'lend', handle });
    if (descriptor < 0) return;
    fstatSync(descriptor);
    await thread.ask({ op: 'discard', handle: descriptor });
    assert.throws(() => fstatSync(descriptor), { code: 'EBADF' });
    await exchange(thread, handle, peer);
  });
}

async function borrow(thread: ReactorThread, handle: number): Promise<Peer | undefined> {
  const descriptor = await thread.value({ op: 'lend', handle });
  if (descriptor < 0) return undefined;
  return new Peer(new Socket({ fd: descriptor, allowHalfOpen: true }));
}
