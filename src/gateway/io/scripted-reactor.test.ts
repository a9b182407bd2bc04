// The scripted reactor follows the rules of reactor.ts. The contract suite does not run here: it needs real sockets and
// a thread.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseIp } from '../../wire/ip-address.ts';
import {
  AGAIN,
  EXHAUSTED,
  FAILED,
  HUNG_UP,
  READABLE,
  REFUSED,
  RESET,
  TIMED_OUT,
  WRITABLE,
} from './reactor.ts';
import { type ScriptedOptions, ScriptedReactor } from './scripted-reactor.samples.ts';

const ADDRESS = parseIp('192.0.2.1') ?? assert.fail();
const backend = { address: ADDRESS, port: 6443 };

function given(options: ScriptedOptions = {}) {
  const io = new ScriptedReactor(options);
  const events = new Map<number, number>();
  let turns = 0;
  io.run({
    event: (handle, seen) => void events.set(handle, (events.get(handle) ?? 0) | seen),
    turn: () => void turns++,
    message: () => {},
  });
  let listener = -1;
  io.listen({ address: ADDRESS, port: 443 }, handle => {
    listener = handle;
  });
  /** The events since the last call. */
  const eventsOf = (handle: number) => {
    io.settle();
    const seen = events.get(handle) ?? 0;
    events.delete(handle);
    return seen;
  };
  const read = (handle: number, space = 100) => {
    const into = Buffer.alloc(space);
    const count = io.read(handle, into, 0, space);
    return count > 0 ? into.toString('latin1', 0, count) : count;
  };
  const write = (handle: number, text: string) => io.write(handle, Buffer.from(text), 0, text.length);
  /** An accepted connection that has events, with its peer. */
  const pair = () => {
    const peer = io.connects(listener, ADDRESS, 40_000);
    const handle = io.accept(listener);
    assert.equal(read(handle), AGAIN);
    eventsOf(handle);
    return { peer, handle };
  };
  return { io, listener, eventsOf, read, write, pair, turns: () => turns };
}

for (const reports of ['state', 'changes'] as const) {
  const scripted = (name: string, body: (it: ReturnType<typeof given>) => void) =>
    test(`ScriptedReactor (${reports}): ${name}`, () => body(given({ reports })));

  scripted('READABLE comes with bytes, then AGAIN', ({ eventsOf, read, pair }) => {
    const { peer, handle } = pair();
    peer.sends('one').sends('two');
    assert.ok((eventsOf(handle) & READABLE) !== 0);
    assert.deepEqual([read(handle, 4), read(handle, 4), read(handle)], ['onet', 'wo', AGAIN]);
  });

  scripted('FIN is read after all bytes, repeatedly', ({ eventsOf, read, pair }) => {
    const { peer, handle } = pair();
    peer.sends('last').fin();
    assert.ok((eventsOf(handle) & READABLE) !== 0);
    assert.equal(read(handle), 'last');
    eventsOf(handle);
    assert.deepEqual([read(handle), read(handle)], [0, 0]);
  });

  scripted('a reset is reported by FAILED, and bytes before it are readable', ({ eventsOf, read, pair }) => {
    const { peer, handle } = pair();
    peer.sends('last').resets();
    assert.ok((eventsOf(handle) & FAILED) !== 0);
    assert.deepEqual([read(handle), read(handle)], ['last', RESET]);
  });

  scripted('a peer that stalls takes little, and WRITABLE comes when it reads', it => {
    const { peer, handle } = it.pair();
    peer.stalls(3);
    const taken = it.write(handle, 'welcome');
    assert.equal(taken, reports === 'state' ? 3 : 7);
    assert.equal(it.write(handle, 'x'), AGAIN);
    it.eventsOf(handle);
    peer.resumes();
    assert.ok((it.eventsOf(handle) & WRITABLE) !== 0);
    assert.equal(it.write(handle, '!'), 1);
    assert.equal(peer.text, `${'welcome'.slice(0, taken)}!`);
  });

  scripted('mostRead and mostWritten split what passes, and an event follows', it => {
    const { peer, handle } = it.pair();
    it.io.mostRead = () => 2;
    peer.sends('hello').fin();
    let text = '';
    for (let count = 0; count < 3; count++) {
      assert.ok((it.eventsOf(handle) & READABLE) !== 0);
      text += it.read(handle);
    }
    assert.equal(text, 'hello');
    assert.ok((it.eventsOf(handle) & HUNG_UP) !== 0 || reports === 'state');
    assert.equal(it.read(handle), 0);
    it.io.mostWritten = () => 0;
    assert.equal(it.write(handle, 'bye'), AGAIN);
    assert.ok((it.eventsOf(handle) & WRITABLE) !== 0);
    // A write that comes after AGAIN always succeeds; node:net takes all of it.
    const taken = it.write(handle, 'bye');
    assert.equal(taken, reports === 'state' ? 1 : 3);
    assert.equal(peer.text, 'bye'.slice(0, taken));
  });

  scripted('peerAt() is the other end of an open connection', it => {
    const { peer, handle } = it.pair();
    peer.sends('x').stalls();
    assert.equal(it.io.peerAt(handle), peer);
    assert.deepEqual([peer.unread, peer.isReading], [1, false]);
    it.io.close(handle);
    assert.deepEqual([it.io.peerAt(handle), it.io.peerAt(it.listener)], [undefined, undefined]);
  });

  scripted('close() delivers what write() took, then FIN', ({ io, write, pair }) => {
    const { peer, handle } = pair();
    peer.stalls(10);
    write(handle, 'bye');
    io.close(handle);
    assert.equal(peer.end, undefined);
    peer.resumes();
    assert.deepEqual([peer.text, peer.end], ['bye', 'fin']);
  });

  scripted('close() with unread bytes, and bytes after it, reset the peer', ({ io, write, pair }) => {
    for (const order of ['before', 'after']) {
      const { peer, handle } = pair();
      peer.stalls(10);
      write(handle, 'bye');
      if (order === 'before') peer.sends('unread');
      io.close(handle);
      if (order === 'after') peer.sends('late');
      peer.resumes();
      assert.deepEqual([peer.text, peer.end], ['', 'reset']);
    }
  });

  scripted('a peer that has closed answers bytes with a reset', ({ eventsOf, write, pair }) => {
    const { peer, handle } = pair();
    peer.closes();
    eventsOf(handle);
    assert.equal(write(handle, 'hello?'), 6);
    assert.ok((eventsOf(handle) & FAILED) !== 0);
    assert.equal(write(handle, 'hello?'), RESET);
  });

  scripted('connect() succeeds, fails, or does neither', ({ io, eventsOf }) => {
    const [good, bad, silent] = (['accept', REFUSED, 'silence'] as const).map(answer => {
      io.answer = () => answer;
      return io.connect(backend);
    });
    assert.equal(eventsOf(good), WRITABLE);
    assert.ok((eventsOf(bad) & FAILED) !== 0);
    assert.equal(io.failure(bad), REFUSED);
    assert.equal(eventsOf(silent), 0);
    io.dialled[2].accepts();
    assert.equal(eventsOf(silent), WRITABLE);
  });

  scripted('events of closed and reused handles are dropped', ({ io, eventsOf, pair }) => {
    const { peer, handle } = pair();
    peer.sends('x').fin();
    io.close(handle);
    io.answer = () => 'silence';
    assert.equal(io.connect(backend), handle);
    assert.equal(eventsOf(handle), 0);
  });

  scripted('stalled() fails a handle whose peer takes nothing', ({ io, eventsOf, read, write, pair }) => {
    io.stalled(1000);
    const { peer, handle } = pair();
    peer.stalls();
    assert.equal(write(handle, 'x'), AGAIN);
    io.passes(999);
    assert.equal(eventsOf(handle) & FAILED, 0);
    io.passes(1);
    assert.ok((eventsOf(handle) & FAILED) !== 0);
    assert.equal(read(handle), TIMED_OUT);
  });

  scripted('turn() comes after soon() and at the time of wakeAt(), once', ({ io, turns }) => {
    io.soon();
    io.soon();
    io.settle();
    assert.equal(turns(), 1);
    io.wakeAt(io.now() + 10);
    io.passes(9);
    assert.equal(turns(), 1);
    io.passes(100);
    assert.deepEqual([turns(), io.alarmAt], [2, Infinity]);
  });

  scripted('quiesce() refuses new connections if the platform can, and leaves those that wait', it => {
    const { io, listener } = it;
    const waiting = io.connects(listener, ADDRESS, 1);
    io.quiesce(listener);
    assert.equal(io.connects(listener, ADDRESS, 2).end, reports === 'state' ? 'reset' : undefined);
    assert.ok(io.accept(listener) >= 0);
    assert.equal(waiting.end, undefined);
  });

  scripted('calls that the port does not allow are violations', ({ io, write, pair }) => {
    const { handle } = pair();
    io.shutdown(handle);
    assert.throws(() => write(handle, 'too late'));
    io.close(handle);
    io.close(handle);
    assert.throws(() => io.read(handle, Buffer.alloc(1), 0, 1));
    assert.deepEqual(io.violations, [
      'write() to 192.0.2.1:40000 after shutdown()',
      `read() of handle ${handle}, which is not an open connection`,
    ]);
  });
}

test('ScriptedReactor: without handles, epoll leaves a client waiting and node:net closes it', () => {
  for (const [reports, end] of [
    ['state', undefined],
    ['changes', 'reset'],
  ] as const) {
    const { io, listener } = given({ reports });
    io.isExhausted = true;
    const client = io.connects(listener, ADDRESS, 1);
    assert.equal(io.accept(listener), EXHAUSTED);
    assert.equal(client.end, end);
    assert.equal(io.connect(backend), EXHAUSTED);
  }
});

test('ScriptedReactor: step() delivers events that were fetched together in any order', () => {
  const seen: number[] = [];
  const { io, pair } = given();
  const pairs = [pair(), pair(), pair()];
  io.run({ event: handle => void seen.push(handle), turn: () => {}, message: () => {} });
  for (const { peer } of pairs) peer.sends('x');
  for (const pick of [1, 1, 0]) io.step(pick);
  assert.deepEqual(
    seen,
    [1, 2, 0].map(index => pairs[index].handle),
  );
  assert.equal(io.step(), false);
});

test('ScriptedReactor: an epoll event reports all that a handle is ready for', () => {
  const { eventsOf, pair } = given();
  const { peer, handle } = pair();
  peer.sends('x').fin();
  assert.equal(eventsOf(handle), READABLE | WRITABLE | HUNG_UP);
});
