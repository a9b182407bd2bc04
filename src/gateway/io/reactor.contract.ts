// The contract of the I/O port: one table that every adapter passes, since nothing above the port knows which one it runs
// on. A row has a name, the ways in which its connections come about, and steps (contract/steps.ts). The reactor under
// test has its own thread, because run() may block; peers are real sockets. Rows rely only on what reactor.ts promises.
// Every row also fails if an event comes for a closed handle, or if the thread does not end on its own after stop().

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import * as fc from 'fast-check';
import { pattern } from './contract/peer.ts';
// biome-ignore format: the vocabulary
import {
  acceptNext, accepts, address, again, another, begin, blocked, calls, cannotListen, cannotWrite, dials,
  dialsAndWaits, does, echoes, event, exchanges, fills, hasAddresses, hasSettings, isRefused, listens, neverHad,
  nothingToAccept, onListener, opens, passes, peerCloses, peerEnds, peerResets, peerSees, peerSends, peerTakes, play,
  readGives, reads, rests, row, type Scene, type Step, serverAt, starts, stops, times, together, turned, type Way,
  wakesIn, writes,
} from './contract/steps.ts';
import { type Call, LAST } from './contract/worker.ts';
import type { EngineName } from './open-reactor.ts';
// biome-ignore format: the vocabulary
import {
  AGAIN, EXHAUSTED, FAILED, HUNG_UP, IN_USE, NOT_AVAILABLE, READABLE, REFUSED, RESET, type SocketAddress, TIMED_OUT,
  UNREACHABLE, WRITABLE,
} from './reactor.ts';

const MIB = 1024 * 1024;
const DAY_MS = 86_400_000;
/** More than fills() needs on a busy machine. */
const STALLED_MS = 500;
const LONG_MS = 3 * STALLED_MS;

const accepted: Way = { name: 'accepted', isDialled: false, host: '127.0.0.1' };
const connected: Way = { name: 'connected', isDialled: true, host: '127.0.0.1' };
const ipv6: Way = { name: 'IPv6, accepted', isDialled: false, host: '::1', on: '::' };
const ipv6Connected: Way = { name: 'IPv6, connected', isDialled: true, host: '::1' };
const ipv4OnBoth: Way = { name: 'IPv4 on both', isDialled: false, host: '127.0.0.1', on: 'both' };
const ipv6OnBoth: Way = { name: 'IPv6 on both', isDialled: false, host: '::1', on: 'both' };
const tcp = [accepted, connected];
const everyWay = [...tcp, ipv6, ipv6Connected, ipv4OnBoth, ipv6OnBoth];

/** Registers the tests of one adapter. */
export function reactorContract(engine: EngineName): void {
  for (const [name, ways, ...steps] of table) row(engine, name, ways, ...steps);
}

// biome-ignore format: a row is its name and ways, and below them its steps
const table: readonly (readonly [string, readonly Way[], ...Step[]])[] = [
  // Listening and accepting.
  ['a connection knows both addresses and carries bytes both ways', everyWay,
    opens, another(opens), hasAddresses, exchanges, neverHad(FAILED)],
  ['listen() on an IPv6 address accepts no IPv4 unless asked to', [ipv6],
    opens, isRefused('127.0.0.1')],
  ['listen() returns IN_USE on a foreign port, shared or not', [accepted],
    ...[false, true].flatMap(share => [starts({ share }), cannotListen(foreign, IN_USE), listens()])],
  ['listen() returns an error code for what it cannot have', [accepted],
    cannotListen(() => address('203.0.113.7'), NOT_AVAILABLE),
    cannotListen(() => address('2001:db8::7'), NOT_AVAILABLE),
    cannotListen(() => ({ ...address('127.0.0.1'), descriptor: 100_000 }))],
  ['accept() returns all connections that queued up meanwhile, each once', [accepted],
    listens(), blocked(times(100, dials)), times(100, accepts, exchanges), nothingToAccept],
  ['quiesce() leaves earlier connections to be accepted', [accepted],
    listens(), blocked(times(10, dials)), onListener('quiesce'), times(10, accepts, exchanges)],
  ['close() of a listener rejects who waits, frees its port, and leaves accepted connections open', [accepted],
    opens, another(dialsAndWaits, onListener('close'), peerSees('whatever')),
    isRefused('127.0.0.1'), exchanges,
    another(s => listens('127.0.0.1', s.listener.port)(s), opens, exchanges)],
  ['listen() takes a socket that another has open, and each closes it for itself', [accepted], adoptsListener],
  ['threads that share a port all get connections', [accepted], sharesPort],
  ['EXHAUSTED when all handles are taken, and service resumes when some are free', [accepted],
    starts({ capacity: 256 }), runsOut],
  ['keepalive() applies to connections accepted from then on, and by keepAlive()', tcp,
    ...[0, 60_000, 0].flatMap(ms => [calls(['keepalive', ms]), opens, hasSettings, hasKeepalive(ms)])],

  // Connecting.
  ['connect() that fails reports why, by FAILED or at once, and never WRITABLE before', [accepted],
    opens, connectFails(s => address('127.0.0.1', s.peer.socket.localPort), REFUSED),
    connectFails(() => address('255.255.255.255', 9), UNREACHABLE)],
  ['connect() closed at once reports nothing more', [connected, ipv6Connected],
    opens, connectsAndCloses('close'), connectsAndCloses('reset'), opens, exchanges, rests()],

  // Reading and writing.
  ['read() returns AGAIN, and READABLE comes with the bytes', tcp,
    opens, times(3, peerSends(5), event(READABLE), reads(5), again)],
  ['read() returns bytes that came before the connection was accepted, and an event follows for more', [accepted],
    listens(), blocked(dials, peerSends(5)), accepts, reads(5, 100), peerSends(5), reads(5), again],
  ['read() that does not fill its space has taken everything, or an event follows', tcp,
    opens, peerSends(100), reads(60), times(2, peerSends(50), rests()), reads(140, 1000), again],
  ['read() returns every byte before FIN, then 0, repeatedly', tcp,
    opens, blocked(peerSends(50_000), peerEnds), reads(50_000), times(3, readGives(0))],
  ['read() finds the end after the remaining bytes, by HUNG_UP or an event', tcp,
    opens, blocked(peerSends(100), peerEnds), reads(60), rests(), reads(40, 1000), readGives(0)],
  ['write() to a peer that does not read takes little, and continues when it reads', tcp,
    opens, fills, together([writes(32 * MIB), does('shutdown')], [peerSees('end')])],
  ['bulk data both ways at once, with a slow reader beside, arrives intact', [accepted],
    together(...[peerTakes(32 * MIB), times(512, peerTakes(MIB / 16), rests(1))].map(takes =>
      [opens, echoes, together([peerSends(32 * MIB), peerEnds], [takes, peerSees('end', 32 * MIB)])]))],
  ['a tunnel passes every byte and both FINs, whatever both ends do and whatever is read at a time', [accepted], tunnels],

  // Ending.
  ['shutdown() sends FIN after all bytes, and reading continues', tcp,
    opens, fills, does('shutdown'), peerSees('end'),
    together([peerSends(2 * MIB), peerEnds], [reads(2 * MIB), readGives(0)])],
  ['writing continues after the FIN of the peer, and close() delivers it', tcp,
    opens, peerEnds, readGives(0), fills, does('close'), peerSees('end')],
  ['write() after shutdown() returns an error', [accepted],
    opens, does('shutdown'), cannotWrite, peerSees('end')],
  ['close() delivers all bytes that write() took', tcp,
    opens, fills, does('close'), peerSees('end')],
  ['close() and reset() of a handle that is not open, or not ours, do nothing', tcp,
    opens, s => s.start().calls(['close', s.connection.handle], ['reset', s.connection.handle]), exchanges,
    does('close', 'reset', 'close'), peerSees('end')],
  ['reset() reaches the peer as a reset, also after its FIN', tcp,
    opens, does('reset'), peerSees('reset'), opens, peerEnds, readGives(0), does('reset'), peerSees('reset')],
  ['reset() drops the bytes that a peer has not read', tcp,
    opens, fills, does('reset'), peerSees('reset'), s => assert.ok(s.peer.taken < s.connection.written)],
  ['reset() right after shutdown() leaves nothing open', tcp,
    opens, does('shutdown', 'reset'), peerSees('whatever'),
    s => assert.rejects(async () => times(10_000, peerSends(1))(s))],
  ['a reset by the peer is reported by FAILED, and writing returns an error', tcp,
    opens, peerResets, event(FAILED), cannotWrite],
  ['a reset behind bytes that nobody reads is reported by FAILED', [accepted],
    listens(), blocked(dials, peerSends(100)), accepts, reads(60), peerResets, event(FAILED)],
  ['a reset right after bytes leaves them readable, and is reported', tcp,
    ...[1, 20_000].flatMap(size => [
      times(10, opens, peerSends(size), peerResets, reads(size), readGives(RESET), does('close')),
      times(10, opens, blocked(peerSends(size), peerResets), reads(size), readGives(RESET), does('close'))])],
  ['a reset by the peer ends a waiting write', tcp,
    opens, fills, peerResets, event(WRITABLE | FAILED), cannotWrite],
  ['a handle reports nothing after reset() or close(), whatever the peer does', tcp,
    ...(['reset', 'close'] as const).flatMap(how => [(s: Scene) => s.peer.socket.write('?'), peerEnds, peerResets]
      .flatMap(act => [opens, fills, does(how), act, peerSees('whatever'), rests()]))],
  ['events of closed and reused handles are dropped', [accepted],
    replacesInEvent(peerResets), replacesInEvent(peerCloses)],
  ['a reused handle has nothing of its former owner', [accepted],
    ...[[peerSends(14), reads(5)], [peerEnds, readGives(0)], [peerResets, event(FAILED)], [fills]].flatMap(before =>
      [opens, exchanges, ...before, does('close'), peerCloses, opens, exchanges, does('close'), peerCloses]),
    s => assert.ok(new Set(s.handles).size < s.handles.length, 'no number was reused')],
  ['opening and closing repeatedly leaks no handle', [connected],
    starts({ capacity: 256 }), times(512, opens, connectsAndCloses('close'), exchanges, does('close'), peerCloses,
      another(listens('127.0.0.1'), onListener('close')), cannotListen(() => address('203.0.113.7'), NOT_AVAILABLE))],

  // A peer that takes none of the bytes written to it.
  ['stalled() fails a handle whose peer takes nothing', tcp,
    // Bytes are missing: the peer must not take the reset for the end.
    calls(['stalled', STALLED_MS]), opens, hasSettings, fills, event(FAILED), readGives(TIMED_OUT), does('reset'), peerSees('reset')],
  ['stalled() leaves handles alone whose peers take their bytes, or that have none to send', [accepted],
    // Shorter than the whole transfer, and longer than a busy machine needs for a third of the kernel's send buffer: a
    // full one takes no more before that much is free.
    calls(['stalled', STALLED_MS]), opens, calls(['stalled', 3500]),
    another(opens, together([writes(64 * MIB)], [times(128, peerTakes(MIB / 2), passes(35))])),
    calls(['stalled', STALLED_MS]), passes(LONG_MS), exchanges],
  ['stalled() with 0 lets a peer wait for any time', [accepted],
    calls(['stalled', STALLED_MS], ['stalled', 0]), opens, fills, passes(LONG_MS), neverHad(FAILED),
    does('shutdown'), peerSees('end')],

  // Time, messages and the end.
  ['wakeAt() calls turn() at that time, not before, and once', [accepted],
    wakesIn(-1000), wakesIn(0), wakesIn(20), ...Array.from({ length: 40 }, (_, i) => wakesIn((i * 0.37) % 3)), turned(43)],
  ['wakeAt() called again replaces the time, to later and to sooner', [accepted],
    wakesIn(1, 40), wakesIn(DAY_MS, 1), turned(2)],
  ['wakeAt() with Infinity or many days ahead does not call turn()', [accepted],
    ...[Infinity, 40 * DAY_MS].flatMap(ms => [calls(['wakeIn', 1], ['wakeIn', ms]), passes(30), turned(0)])],
  ['what arrived while the thread was held up is reported before turn(), and may put it off', tcp,
    opens, again, rests(), bytesPutOffAlarm, turned(0)],
  ['soon() calls turn() once, however often it was requested', [accepted],
    calls(['soon'], ['soon']), turned(1)],
  ['soon() from every turn() starves neither sockets nor messages', [accepted],
    opens, echoes, calls(['spin']), times(20, peerSends(12), peerTakes(12), turnsAgain)],
  ['now() is one clock for all threads, and does not go back', [accepted], comparesClocks],
  ['messages all arrive in order, also while bytes flow', [accepted], opens, echoes,
    together([peerSends(16 * MIB), peerEnds], [peerSees('end', 16 * MIB)], [asksInOrder])],
  ['stop() closes everything, reports nothing more, and lets the thread end', [accepted], stopsAmidst],
  ['stop() delivers the bytes that write() took', tcp, opens, fills, together([stops], [peerSees('end')])],
];

// Steps of a single row.

async function foreign(s: Scene): Promise<SocketAddress> {
  return address('127.0.0.1', (await serverAt(s, '127.0.0.1')).port);
}

async function adoptsListener(s: Scene): Promise<void> {
  await listens()(s);
  const { handle, port } = s.listener;
  const descriptor = await s.thread.call('descriptor', handle);
  const [next, last] = [s.start(), s.start()].map((thread): Scene => ({ ...s, thread }));
  for (const each of [next, last]) {
    each.listener = await each.thread.listen({ ...address('127.0.0.1', port), descriptor });
    assert.ok(each.listener.handle >= 0, `${each.listener.handle}`);
    assert.equal(each.listener.port, port);
  }
  for (const each of [last, s]) await onListener('close')(each);
  await play(next, times(10, dials, accepts, exchanges), onListener('close'), isRefused('127.0.0.1'));
}

async function sharesPort(s: Scene): Promise<void> {
  const [one, other] = [1, 2].map((): Scene => ({ ...s, thread: s.start({ share: true }) }));
  await listens('both')(one);
  await listens('both', one.listener.port)(other);
  for (let i = 0; i < 32; i++) for (const way of [ipv4OnBoth, ipv6OnBoth]) await dials({ ...one, way });
  const counts = [0, 0];
  for (let i = 0; counts[0] + counts[1] < s.dialled.size; i = 1 - i) {
    const { thread, listener } = [one, other][i];
    const handle = await thread.call('accept', listener.handle);
    if (handle === AGAIN) continue;
    counts[i]++;
    await thread.call('write', handle, pattern(0, 1));
  }
  for (const peer of s.dialled) await peer.take(1);
  // The chance of all 64 on one side is one in 2^63.
  assert.ok(Math.min(...counts) > 0, counts.join(' and '));
}

/** Where handles are descriptors, this process has many already; so use up the room instead of counting. */
async function runsOut(s: Scene): Promise<void> {
  await listens()(s);
  const served: Scene[] = [];
  for (;;) {
    const each = { ...s };
    await dials(each);
    const handle = await acceptNext(each);
    if (handle === EXHAUSTED) {
      await peerCloses(each);
      break;
    }
    assert.ok(handle < 256, `${handle}`);
    begin(each, handle);
    served.push(each);
  }
  const to = await foreign(s);
  const connect = () => s.thread.call('connect', to);
  const listen = async () => (await s.thread.listen(address('127.0.0.1'))).handle;
  for (const open of [connect, listen]) {
    // The rejected client freed a descriptor or two, and the process may close others.
    let tries = 32;
    while ((await open()) !== EXHAUSTED) assert.ok(--tries > 0, '32 more handles than there are');
  }
  for (const each of served.splice(0, 8)) await play(each, peerCloses, does('close'));
  await play(s, dials, peerSends(7));
  for (let count = 0; count === 0; ) {
    // A client that stayed in the backlog comes first; it has left without sending anything.
    const handle = await acceptNext(s);
    count = await s.thread.untilNotAgain(handle, async () => (await s.thread.call('read', handle, 7)).count);
    assert.ok(count >= 0, `read() gave ${count}`);
  }
  await exchanges(served[0]);
}

function hasKeepalive(ms: number): Step {
  return s => {
    // `tr:tm->when`; 02 is the keepalive timer, and the time is in hundredths of a second.
    const [timer, when] = s.peer.procTcp().reactor[5].split(':');
    const left = timer === '02' ? Number.parseInt(when, 16) * 10 : 0;
    assert.ok(ms === 0 ? left === 0 : left > 0 && left <= ms, `${left} ms left`);
  };
}

function connectFails(to: (s: Scene) => SocketAddress, code: number): Step {
  return async s => {
    const handle = await s.thread.call('connect', to(s));
    if (handle < 0) return assert.equal(handle, code);
    await s.thread.eventAfter(handle, 0, FAILED);
    assert.ok(s.thread.events(handle).every(events => (events & (FAILED | WRITABLE)) !== WRITABLE));
    assert.equal(await s.thread.call('failure', handle), code);
    await s.thread.call('close', handle);
  };
}

function connectsAndCloses(how: 'close' | 'reset'): Step {
  return async s => {
    const { host } = s.way;
    const server = await serverAt(s, host);
    // Nothing listens on the local port of a client, and nothing else can get it.
    for (const port of [server.port, s.peer.socket.remotePort]) {
      const [handle] = await s.thread.calls(['connect', address(host, port)], [how, LAST]);
      assert.ok((handle as number) >= 0, `${handle}`);
    }
  };
}

/** Of two peers, each sends, takes and ends in any order; bytes of the first are there before the connect succeeds. */
async function tunnels(s: Scene): Promise<void> {
  await listens()(s);
  const to = await foreign(s);
  const server = await serverAt(s, '127.0.0.1');
  const size = fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 400_000 }));
  const act = fc.tuple(fc.nat({ max: 1 }), fc.constantFrom('send', 'send', 'take', 'rest', 'end'), size);
  const acts = fc.array(act, { maxLength: 16, size: 'max' });
  const spaces = fc.array(size, { minLength: 1, maxLength: 5 });
  const property = fc.asyncProperty(acts, spaces, async (acts, spaces) => {
    await play(s, dials, peerSends(10), accepts);
    const { handle } = s.connection;
    const flows = [handle, LAST].map((from, i): Call => ['flow', from, [LAST, handle][i], spaces]);
    const [other] = await s.thread.calls(['connect', to], ...flows);
    const ends = [s.peer, await server.next()];
    for (const [side, does, size] of acts) {
      // A buffer of one byte need not pass a megabyte.
      const count = Math.min(size, 500 * Math.max(...spaces));
      const end = ends[side];
      if (does === 'end') end.socket.end();
      // Without waiting: bytes that the other end has not read yet stay in this process.
      else if (does === 'send' && !end.socket.writableEnded) void end.send(count);
      else if (does === 'take') await end.take(Math.min(count, ends[1 - side].sent - end.taken));
      else await rests(1 + (size % 3))(s);
    }
    for (const end of ends) end.socket.end();
    await Promise.all(ends.map(end => end.take()));
    const [near, far] = ends;
    assert.deepEqual([near.over, near.taken, far.over, far.taken], ['end', far.sent, 'end', near.sent]);
    await s.thread.calls(['close', handle], ['close', other as number]);
  });
  await fc.assert(property, { numRuns: 60 });
}

/** The first of many pending events closes all handles, and opens as many that reuse the numbers. */
function replacesInEvent(peerLeaves: Step): Step {
  return async s => {
    if (s.listener === undefined) await listens()(s);
    const scenes = Array.from({ length: 20 }, () => ({ ...s }));
    for (const each of scenes) await opens(each);
    const group = scenes.map(each => each.connection.handle);
    const to = await foreign(s);
    const server = await serverAt(s, '127.0.0.1');
    const closing = group.map((handle): Call => ['close', handle]);
    const { answer } = await s.thread.inEventOf(group, ...closing, ...group.map((): Call => ['connect', to]));
    await blocked(...scenes.map(each => () => play(each, peerSends(1), peerLeaves)))(s);
    const replaced = (await answer).slice(group.length) as number[];
    assert.ok(new Set([...group, ...replaced]).size < 2 * group.length, 'no number was reused');
    for (const [i, each] of scenes.entries()) {
      begin(each, replaced[i]);
      each.peer = await server.next();
      await play(each, event(WRITABLE), hasAddresses, again, writes(4), peerTakes(4));
    }
    for (const each of scenes) await play(each, neverHad(FAILED | HUNG_UP), does('close'));
  };
}

/** The alarm is due and bytes are there when the thread gets to either. */
async function bytesPutOffAlarm(s: Scene): Promise<void> {
  const { answer } = await s.thread.inEventOf([s.connection.handle], ['wakeIn', Number.POSITIVE_INFINITY]);
  await s.thread.whileBlocked(() => play(s, peerSends(5), () => sleep(5)), ['wakeIn', 1]);
  await answer;
}

async function turnsAgain({ thread }: Scene): Promise<void> {
  const before = thread.turns.length;
  await thread.until(() => thread.turns.length > before);
}

async function comparesClocks(s: Scene): Promise<void> {
  const threads = [s.thread, s.start()];
  const times: number[] = [];
  for (let i = 0; i < 20; i++) {
    times.push(await threads[i % 2].call('now'));
    assert.ok(i < 2 || times[i] >= times[i - 2], times.join());
  }
  // A reactor may read the clock once per turn, however long that takes; a different clock would be far off.
  assert.ok(Math.abs(times[18] - times[19]) < 60_000, times.join());
}

async function asksInOrder(s: Scene): Promise<void> {
  const order: number[] = [];
  await Promise.all(Array.from({ length: 1000 }, (_, i) => s.thread.call('now').then(() => order.push(i))));
  assert.deepEqual(order, [...order.keys()]);
}

/** With an accepted, a connected and a waiting connection, an alarm, and one more listener that is still being opened. */
async function stopsAmidst(s: Scene): Promise<void> {
  const dialled: Scene = { ...s, way: connected };
  const waiting: Scene = { ...s };
  await opens(s);
  await opens(dialled);
  await play(waiting, listens(), nothingToAccept, dialsAndWaits, calls(['wakeIn', DAY_MS]));
  assert.equal(await s.thread.stop(['listen', address('127.0.0.1'), 0]), 0);
  for (const each of [s, dialled]) await peerSees('end')(each);
  await peerSees('whatever')(waiting);
}
