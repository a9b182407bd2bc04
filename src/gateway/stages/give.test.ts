// Giving on a scripted reactor. What the next owner does with a connection is in test/features.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALIVE, COUNTED, GIVING, Rows } from '../shared/rows.ts';
import { acceptStream } from './accept.ts';
import type { Gift } from './gift.ts';
import { giveWaiting } from './give.ts';
import { recordEnd } from './record-end.ts';
import { helloFor, ScriptedPath, scriptedTest } from './scripted-path.samples.ts';

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

/** A next owner that keeps what it is given. */
class Owner {
  readonly arrivals = new Rows(Rows.memory(64));
  readonly owned = new Uint8Array(64);
  readonly gifts: Gift[] = [];

  take(gift: Gift): void {
    this.gifts.push(gift);
  }

  /** Ends all that it has. */
  ends({ path }: ScriptedPath): void {
    for (const { at } of this.gifts.splice(0))
      recordEnd(this.arrivals, path.shared, at, 'done', path.io.now(), 'all');
  }
}

function withOwner({ path }: ScriptedPath): Owner {
  const owner = new Owner();
  path.receiver = owner;
  path.mayGive = true;
  return owner;
}

scriptedTest('give() passes on a connection with all that it is counted in, and reads no more', {}, it => {
  const owner = withOwner(it);
  const client = it.client(`${PREFACE}and more`);
  client.sends('for the next owner');
  it.io.settle();
  const [{ purpose, at, first, connection }] = owner.gifts;
  assert.deepEqual([purpose, Buffer.from(first).toString()], ['h2', `${PREFACE}and more`]);
  assert.equal(client.unread, 'for the next owner'.length);
  assert.equal(owner.arrivals.counts[at], ALIVE | COUNTED);
  assert.deepEqual([it.open.connections, it.open.pending, it.reasons], [1, 0, []]);
  assert.deepEqual(
    [it.path.rows.counts[connection as number], it.io.open.includes(connection as number)],
    [0, false],
  );
  owner.ends(it);
});

scriptedTest('give() waits while the next owner is away', {}, it => {
  it.path.mayGive = true;
  const client = it.client(PREFACE);
  const handle = it.io.open.find(open => it.path.rows.state[open] === GIVING) ?? assert.fail();
  client.sends('more');
  it.io.settle();
  assert.deepEqual([client.end, it.path.rows.state[handle], it.reasons], [undefined, GIVING, []]);
  const owner = withOwner(it);
  giveWaiting(it.path);
  assert.deepEqual([owner.gifts.length, it.path.waiting.size], [1, 0]);
  owner.ends(it);
});

scriptedTest('give() gives up when nobody comes', {}, it => {
  it.path.mayGive = true;
  const client = it.client(PREFACE);
  it.io.passes(2 * it.path.settings.connectMs);
  assert.deepEqual([client.end, it.reasons], ['fin', ['connect-failed']]);
  assert.equal(it.path.waiting.size, 0);
  const owner = withOwner(it);
  giveWaiting(it.path);
  assert.deepEqual(owner.gifts, []);
});

scriptedTest('give() leaves other connections alone that got the handle of one that left', {}, it => {
  it.path.mayGive = true;
  it.client(PREFACE);
  it.cuts('drained');
  it.client(helloFor('a.lab'));
  const owner = withOwner(it);
  giveWaiting(it.path);
  assert.deepEqual([owner.gifts, it.open.connections], [[], 1]);
});

test('acceptStream() revokes a stream whose listener this thread never knew', () => {
  const it = new ScriptedPath();
  const client = it.client('');
  const session = it.io.open.find(open => open !== it.listener) ?? assert.fail();
  // As if another thread had given it.
  it.path.rows.listener[session] = 7;
  const stream = it.io.connect({ address: new Uint8Array(16), port: 1 });
  it.io.settle();
  acceptStream(it.path, session, stream, false);
  assert.deepEqual([it.reasons, client.end, it.open.connections], [['revoked'], undefined, 1]);
});
