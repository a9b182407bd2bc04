// Tunnels on a scripted reactor. Feature tests are in test/features.

import assert from 'node:assert/strict';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import { READ_BUFFER } from './kept-buffers.ts';
import { helloFor, type ScriptedPath, scriptedTest } from './scripted-path.samples.ts';

const hello = helloFor('a.lab');

/** Both directions of a tunnel: who sends, who receives, and which reason a reset of the sender has. */
const directions = [
  ['client', 'backend', 'client-reset'],
  ['backend', 'client', 'backend-reset'],
] as const;

type Pair = ReturnType<ScriptedPath['tunnel']>;

/** What that side of the tunnel has received, without the hello. */
function received({ backend }: Pair, side: ScriptedPeer): Buffer {
  return side === backend ? side.received.subarray(hello.length) : side.received;
}

/** What that side has sent, without the hello. */
function sent({ client }: Pair, side: ScriptedPeer): Buffer {
  return side === client ? side.sent.subarray(hello.length) : side.sent;
}

/** A prime length, so that no part of the size of a buffer looks like another. */
const pattern = Uint8Array.from({ length: 251 }, (_, i) => i);

function anyBytes(length: number): Buffer {
  return Buffer.alloc(length, pattern);
}

for (const [from, to, resetReason] of directions) {
  const tunnelTest = (
    name: string,
    body: (it: ScriptedPath, pair: Pair, source: ScriptedPeer, target: ScriptedPeer) => void,
  ) =>
    scriptedTest(`tunnel, ${from} to ${to}: ${name}`, {}, it => {
      const pair = it.tunnel();
      body(it, pair, pair[from], pair[to]);
    });

  tunnelTest('bytes pass in order', (it, pair, source, target) => {
    for (const size of [1, 1000, READ_BUFFER, 3 * READ_BUFFER + 1, 5]) {
      source.sends(anyBytes(size));
      it.io.settle();
    }
    assert.ok(received(pair, target).equals(sent(pair, source)));
    assert.equal(it.open.kept, 0);
  });

  tunnelTest('FIN passes after the bytes, and the other direction stays open', (it, pair, source, target) => {
    source.sends('last').fin();
    it.io.settle();
    assert.deepEqual([received(pair, target).toString(), target.end, source.end], ['last', 'fin', undefined]);
    for (let i = 0; i < 3; i++) {
      it.io.passes(15_000);
      target.sends('more');
      it.io.settle();
    }
    assert.equal(received(pair, source).toString(), 'moremoremore');
    target.fin();
    it.io.settle();
    assert.deepEqual([source.end, it.reasons, it.io.open], ['fin', ['done'], []]);
    assert.equal(it.records[0].clientEndedFirst, from === 'client');
  });

  tunnelTest('FIN waits for bytes that are not taken yet', (it, pair, source, target) => {
    target.stalls();
    source.sends(anyBytes(100_000)).fin();
    it.io.settle();
    assert.equal(target.end, undefined);
    target.fin();
    it.io.settle();
    assert.deepEqual(it.reasons, [], 'bytes are left to be taken');
    target.resumes();
    it.io.settle();
    assert.ok(received(pair, target).equals(sent(pair, source)));
    assert.deepEqual([target.end, source.end, it.reasons], ['fin', 'fin', ['done']]);
  });

  tunnelTest(
    'a target that does not read stops the source, and gets every byte',
    (it, pair, source, target) => {
      target.stalls(1000);
      for (let i = 0; i < 20; i++) {
        source.sends(anyBytes(50_000));
        it.io.passes(100);
      }
      assert.ok(it.open.kept <= READ_BUFFER, 'one read is kept, the rest is in the kernel');
      for (let i = 0; i < 20; i++) {
        target.reads(7777);
        it.io.settle();
      }
      target.resumes();
      it.io.settle();
      assert.ok(received(pair, target).equals(sent(pair, source)));
      assert.equal(it.open.kept, 0);
    },
  );

  tunnelTest('the other direction goes on while one is stalled', (it, pair, source, target) => {
    target.stalls();
    source.sends(anyBytes(200_000));
    it.io.settle();
    target.sends(anyBytes(200_000));
    it.io.settle();
    assert.ok(received(pair, source).equals(sent(pair, target)));
  });

  tunnelTest('a reset passes after the bytes before it', (it, pair, source, target) => {
    source.sends('last').resets();
    it.io.settle();
    assert.deepEqual([target.end, it.reasons, it.io.open], ['reset', [resetReason], []]);
    assert.equal(received(pair, target).toString(), 'last');
  });

  tunnelTest('a reset waits until the bytes before it are taken', (it, pair, source, target) => {
    target.stalls();
    source.sends(anyBytes(100_000));
    it.io.settle();
    source.resets();
    it.io.settle();
    assert.deepEqual([target.end, it.reasons], [undefined, []]);
    target.resumes();
    it.io.settle();
    assert.deepEqual([target.end, it.reasons], ['reset', [resetReason]]);
    assert.ok(received(pair, target).equals(sent(pair, source)));
  });

  tunnelTest('a reset behind a target that never reads', (it, _, source, target) => {
    target.stalls();
    source.sends(anyBytes(100_000));
    it.io.settle();
    source.resets();
    it.io.passes(30_000);
    assert.deepEqual([target.end, it.io.open, it.reasons.length], ['reset', [], 1]);
  });

  tunnelTest('a reset after FIN of the same side', (it, _, source, target) => {
    source.fin();
    it.io.settle();
    source.resets();
    it.io.settle();
    target.sends('to nobody');
    it.io.settle();
    assert.deepEqual([target.end, it.io.open, it.reasons], ['reset', [], [resetReason]]);
  });

  tunnelTest('bytes to a side that has closed reset the sender', (it, _, source, target) => {
    target.closes();
    it.io.settle();
    source.sends('to nobody');
    it.io.settle();
    source.sends('to nobody');
    it.io.settle();
    const reason = from === 'client' ? 'backend-reset' : 'client-reset';
    assert.deepEqual([source.end, it.io.open, it.reasons], ['reset', [], [reason]]);
  });

  tunnelTest(
    '`halfClosed` ends a tunnel whose other side neither sends nor closes',
    (it, _, source, target) => {
      it.io.passes(30_000);
      source.fin();
      it.io.passes(19_900);
      assert.deepEqual([target.end, it.reasons], ['fin', []]);
      it.io.passes(200);
      assert.deepEqual([it.reasons, source.end, it.io.open], [['half-closed-timeout'], 'fin', []]);
    },
  );

  tunnelTest('`stalled` ends a tunnel whose target takes nothing', (it, _, source, target) => {
    target.stalls();
    source.sends(anyBytes(10));
    it.io.passes(9900);
    assert.deepEqual(it.reasons, []);
    it.io.passes(200);
    assert.deepEqual([it.reasons, source.end, target.end], [['idle-timeout'], 'reset', 'reset']);
  });

  tunnelTest('`stalled` spares a target that takes a little', (it, pair, source, target) => {
    target.stalls(1000);
    for (let i = 0; i < 5; i++) {
      source.sends(anyBytes(20_000));
      it.io.passes(8000);
      // node:net reports progress only when its own buffer is empty.
      target.reads(it.io.reports === 'state' ? 1 : 20_000);
      it.io.settle();
    }
    assert.deepEqual(it.reasons, []);
    target.resumes();
    it.io.settle();
    assert.ok(received(pair, target).equals(sent(pair, source)));
  });

  tunnelTest('bytes keep an idle tunnel open', (it, _, source) => {
    for (let i = 0; i < 5; i++) {
      it.io.passes(50_000);
      source.sends('x');
    }
    it.io.passes(59_900);
    assert.deepEqual(it.reasons, []);
    it.io.passes(200);
    assert.deepEqual([it.reasons, source.end, it.io.open], [['idle-timeout'], 'fin', []]);
  });
}

scriptedTest('tunnel: counts the bytes of both directions', {}, it => {
  const { client, backend } = it.tunnel();
  client.sends(anyBytes(1000)).fin();
  backend.sends(anyBytes(300_000)).fin();
  it.io.settle();
  const [{ bytesIn, bytesOut, why }] = it.records;
  assert.deepEqual([bytesIn, bytesOut, why], [hello.length + 1000, 300_000, 'done']);
});

scriptedTest(
  'tunnel: without time-outs nothing ends it, and no deadline is set',
  {
    settings: { idleMs: undefined, halfClosedMs: undefined, stalledMs: undefined },
  },
  it => {
    const { client, backend } = it.tunnel();
    // Keepalive is set after 1 s.
    it.io.passes(1100);
    assert.equal(it.io.alarmAt, Infinity);
    backend.stalls();
    client.sends(anyBytes(100_000)).fin();
    it.io.passes(10_000_000);
    assert.deepEqual([it.reasons, it.io.alarmAt], [[], Infinity]);
    backend.resumes();
    it.io.passes(10_000_000);
    assert.deepEqual([backend.end, it.reasons], ['fin', []]);
  },
);

scriptedTest('tunnel: one that never rests leaves others their turn', {}, it => {
  const busy = it.tunnel();
  const other = it.tunnel();
  busy.client.sends(anyBytes(4 * READ_BUFFER));
  other.client.sends('me too');
  it.io.step();
  assert.ok(busy.backend.received.length < 3 * READ_BUFFER);
  it.io.step();
  assert.equal(received(other, other.backend).toString(), 'me too');
  it.io.settle();
  assert.ok(received(busy, busy.backend).equals(sent(busy, busy.client)));
});
