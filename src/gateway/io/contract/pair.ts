// One connection for a test of the contract, and the way to fill it.

import assert from 'node:assert/strict';
import { AGAIN } from '../reactor.ts';
import { pattern } from './messages.ts';
import { dial, ip, type Peer, unix } from './outside.ts';
import type { ReactorThread } from './reactor-thread.ts';

/** A connection that the reactor has accepted and waits for, from both sides. */
export async function pair(
  thread: ReactorThread,
  path?: string,
): Promise<{ thread: ReactorThread; handle: number; peer: Peer }> {
  const listener = await thread.listen(path === undefined ? ip('127.0.0.1') : unix(path));
  const peer = await dial(path === undefined ? { host: '127.0.0.1', port: listener.port } : { path });
  const handle = await thread.accept(listener.handle);
  // Events are promised after AGAIN only.
  assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
  return { thread, handle, peer };
}

/** Writes until nothing more is taken, and no event says otherwise; how much that was. */
export async function fill(thread: ReactorThread, handle: number): Promise<number> {
  for (let taken = 0; ; ) {
    const value = await thread.value({ op: 'write', handle, bytes: pattern(taken, 64 * 1024) });
    if (value !== AGAIN) {
      assert.ok(value > 0, `${value}`);
      taken += value;
      continue;
    }
    const seen = thread.eventCount(handle);
    for (let i = 0; i < 20; i++) await thread.ask();
    if (thread.eventCount(handle) === seen) return taken;
  }
}
