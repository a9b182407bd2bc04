// One connection for a contract test, with both its sides, and what tests do with it.

import assert from 'node:assert/strict';
import { formatIpPort } from '../../../wire/ip-address.ts';
import { AGAIN } from '../reactor.ts';
import { pattern } from './messages.ts';
import { dial, ip, type Peer, unix } from './outside.ts';
import type { ReactorThread } from './reactor-thread.ts';

/** A connection that the reactor has accepted and that is registered for events, with both sides. */
export async function pair(
  thread: ReactorThread,
  path?: string,
): Promise<{ thread: ReactorThread; handle: number; peer: Peer }> {
  const listener = await thread.listen(path === undefined ? ip('127.0.0.1') : unix(path));
  const peer = await dial(path === undefined ? { host: '127.0.0.1', port: listener.port } : { path });
  const handle = await thread.accept(listener.handle);
  // Events are promised only after AGAIN.
  assert.equal(await thread.value({ op: 'read', handle, space: 1 }), AGAIN);
  return { thread, handle, peer };
}

/** Writes until nothing more is taken and no event follows; returns the number of bytes. */
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

/** Sends a few bytes each way. */
export async function exchange(thread: ReactorThread, handle: number, peer: Peer): Promise<void> {
  await peer.send('there');
  assert.equal((await thread.readExactly(handle, 5)).toString(), 'there');
  await thread.write(handle, Buffer.from('and back'));
  assert.equal((await peer.take(8)).toString(), 'and back');
}

export async function addressOf(
  thread: ReactorThread,
  op: 'peer' | 'local',
  handle: number,
): Promise<string> {
  const { value, bytes } = await thread.bytes({ op, handle });
  return formatIpPort(bytes, 0, value);
}

export function endpoint(host: string, port: number | undefined): string {
  return formatIpPort(ip(host).address, 0, port ?? 0);
}
