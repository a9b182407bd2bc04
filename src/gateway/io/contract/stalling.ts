// Contract of the I/O port: a peer that takes none of the bytes written to it.

import assert from 'node:assert/strict';
import { AGAIN, FAILED, TIMED_OUT, WRITABLE } from '../reactor.ts';
import { dial, digestOf, ip, type Peer, serveOutside } from './outside.ts';
import { exchange, fill, pair } from './pair.ts';
import { type Adapter, contractTest, type ReactorThread } from './reactor-thread.ts';

const MIB = 1024 * 1024;
const STALLED_MS = 200;

export function stallingContract(adapter: Adapter): void {
  for (const side of ['accepted', 'connected'] as const) {
    contractTest(adapter, `stalled() fails a handle (${side}) whose peer takes nothing`, async start => {
      await using server = await serveOutside();
      const thread = start();
      const { handle, peer } = await (side === 'accepted' ? accepted(thread) : connected(thread, server));
      await fill(thread, handle);
      await thread.event(handle, FAILED);
      assert.equal(await thread.value({ op: 'read', handle, space: 1 }), TIMED_OUT);
      await thread.ask({ op: 'reset', handle });
      // Bytes are missing: the peer must not take it for the end.
      assert.equal((await peer.takeAll()).end, 'ECONNRESET');
    });
  }

  contractTest(adapter, 'stalled() leaves handles alone whose peers take their bytes', async start => {
    const thread = start();
    const idle = await accepted(thread);
    // Last, since it may hold for all handles. Shorter than the whole transfer, and longer than a busy machine needs for a
    // third of the kernel's send buffer: a full one takes no more before that much is free.
    const { handle, peer } = await accepted(thread, 3500);
    const source = { kind: 'source', size: 64 * MIB, piece: 100_000, last: 'shutdown' } as const;
    await thread.ask({ op: 'serve', handle, behaviour: source });
    const taken = await peer.takeAll(600);
    assert.deepEqual(taken, { count: 64 * MIB, digest: digestOf(64 * MIB), end: 'end' });
    // A handle with nothing to send is exempt, however long it is idle.
    await thread.ask({ op: 'stalled', ms: STALLED_MS });
    await aWhile(thread);
    await exchange(thread, idle.handle, idle.peer);
  });

  contractTest(adapter, 'stalled() with 0 lets a peer wait for any time', async start => {
    const thread = start();
    await thread.ask({ op: 'stalled', ms: STALLED_MS }, { op: 'stalled', ms: 0 });
    const { handle, peer } = await pair(thread);
    const taken = await fill(thread, handle);
    await aWhile(thread);
    assert.equal(thread.eventsOf(handle) & FAILED, 0);
    await thread.ask({ op: 'shutdown', handle });
    assert.equal((await peer.takeAll()).count, taken);
  });
}

/** Several times the stall limit. */
async function aWhile(thread: ReactorThread): Promise<void> {
  await thread.ask({ op: 'wakeAt', after: 4 * STALLED_MS });
  await thread.until(() => thread.turns.length > 0);
}

async function accepted(thread: ReactorThread, ms = STALLED_MS): Promise<{ handle: number; peer: Peer }> {
  await thread.ask({ op: 'stalled', ms });
  const listener = await thread.listen(ip('127.0.0.1'));
  const peer = await dial({ host: '127.0.0.1', port: listener.port });
  const handle = await thread.accept(listener.handle);
  assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
  return { handle, peer };
}

async function connected(
  thread: ReactorThread,
  server: { readonly port: number; next(): Promise<Peer> },
): Promise<{ handle: number; peer: Peer }> {
  await thread.ask({ op: 'stalled', ms: STALLED_MS });
  const handle = await thread.value({ op: 'connect', address: ip('127.0.0.1', server.port) });
  await thread.event(handle, WRITABLE);
  await thread.ask({ op: 'keepAlive', handle });
  assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
  return { handle, peer: await server.next() };
}
