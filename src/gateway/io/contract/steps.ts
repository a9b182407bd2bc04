// The steps of the contract table: what the reactor's thread (`reads`) or its peer (`peerSends`) does, and what must come
// of it. Most act on the scene's current connection. Every byte on the way is compared with the one that was sent.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseIp } from '../../../wire/ip-address.ts';
import type { EngineName } from '../open-reactor.ts';
import { AGAIN, FAILED, HUNG_UP, READABLE, type SocketAddress, WRITABLE } from '../reactor.ts';
import { dial, isPattern, type Peer, pattern, type Server, serve } from './peer.ts';
import { type Listener, ReactorThread, type ThreadOptions } from './reactor-thread.ts';
import type { Call } from './worker.ts';

/** Far above what any row needs: a lost event ends in this time-out, never in a wrong result. */
const TIMEOUT_MS = 60_000;
/** Bytes per call. */
const PIECE = 100_000;
/** What the kernel's buffers take: tcp_wmem and tcp_rmem, usually 4 and 6 MiB. */
const MOST_TAKEN = 16 * 1024 * 1024;

/** How connections come about. A place is an IP address, or `both` for a listener of both families. */
export interface Way {
  readonly name: string;
  readonly isDialled: boolean;
  readonly host: string;
  /** The listener's place, where it is not `host`. */
  readonly on?: string;
}

/** Where a row is played. A copy has its own current thread, listener, peer and connection. */
export interface Scene {
  readonly way: Way;
  readonly start: (options?: ThreadOptions) => ReactorThread;
  /** Closes the peers at the end. */
  readonly outside: DisposableStack;
  readonly servers: Map<string, Promise<Server>>;
  /** Peers that are not accepted yet. */
  readonly dialled: Set<Peer>;
  /** Of every connection so far. */
  readonly handles: number[];
  thread: ReactorThread;
  listener: Listener;
  peer: Peer;
  connection: {
    readonly handle: number;
    /** Bytes so far. */
    read: number;
    written: number;
    /** What the last read said about the next one. */
    next: 'more' | 'after short' | 'after AGAIN';
    /** The number of events when a read or fills() last ended. */
    seen: number;
  };
}

export type Step = (s: Scene) => unknown;

/** Registers a row of the table as a test for each of its ways. */
export function row(engine: EngineName, name: string, ways: readonly Way[], ...steps: Step[]): void {
  for (const way of ways) {
    const title = `Reactor (${engine}): ${name}${ways.length > 1 ? ` (${way.name})` : ''}`;
    test(title, { timeout: TIMEOUT_MS }, async t => {
      await using threads = new AsyncDisposableStack();
      using outside = new DisposableStack();
      let at = 0;
      t.signal.addEventListener('abort', () => {
        t.diagnostic(`in step ${at}`);
        outside.dispose();
      });
      const start = (options = {}) => threads.use(new ReactorThread(engine, options, t.signal));
      const scene = { way, start, outside, servers: new Map(), dialled: new Set(), handles: [] };
      // Steps set the rest before others use it.
      const s = { ...scene, thread: start() } as unknown as Scene;
      for (at = 1; at <= steps.length; at++) await steps[at - 1](s);
    });
  }
}

// Composition.

export async function play(s: Scene, ...steps: readonly Step[]): Promise<void> {
  for (const step of steps) await step(s);
}

export function times(count: number, ...steps: Step[]): Step {
  return async s => {
    for (let i = 0; i < count; i++) await play(s, ...steps);
  };
}

/** With another current connection. */
export function another(...steps: Step[]): Step {
  return s => play({ ...s }, ...steps);
}

/** At the same time; what a script opens is its own. */
export function together(...scripts: (readonly Step[])[]): Step {
  return s => Promise.all(scripts.map(steps => play({ ...s }, ...steps)));
}

/** While the reactor's thread is busy: it finds everything at once afterwards. */
export function blocked(...steps: Step[]): Step {
  return s => s.thread.whileBlocked(() => play(s, ...steps));
}

/** Gives the adapter many chances to do what it does on its own. */
export const rests = (count = 20) => times(count, s => s.thread.calls());
export const passes = (ms: number) => (s: Scene) => play(s, () => sleep(ms), rests());

// The reactor's thread.

export const starts = (options: ThreadOptions) => (s: Scene) =>
  Object.assign(s, { thread: s.start(options) });

/** These calls in one go, without an event in between. */
export function calls(...calls: Call[]): Step {
  return s => s.thread.calls(...calls);
}

export function listens(place?: string, port?: number): Step {
  return async s => {
    s.listener = await s.thread.listen(address(place ?? s.way.on ?? s.way.host, port));
    assert.ok(s.listener.handle >= 0, `listen() gave ${s.listener.handle}`);
  };
}

/** Without a code, any error will do. */
export function cannotListen(at: (s: Scene) => SocketAddress | Promise<SocketAddress>, code?: number): Step {
  return async s => {
    const { handle } = await s.thread.listen(await at(s));
    assert.ok(code === undefined ? handle < AGAIN : handle === code, `listen() gave ${handle}`);
  };
}

export async function nothingToAccept(s: Scene): Promise<void> {
  assert.equal(await s.thread.call('accept', s.listener.handle), AGAIN);
}

/** The next connection, and the peer it belongs to. */
export async function accepts(s: Scene): Promise<void> {
  begin(s, await acceptNext(s));
  const peer = await s.thread.call('peerAddress', s.connection.handle);
  s.peer = s.dialled.values().find(each => each.local === peer) ?? assert.fail(peer);
  s.dialled.delete(s.peer);
}

export const onListener = (call: 'quiesce' | 'close') => (s: Scene) => s.thread.call(call, s.listener.handle);

/** A connection, in the row's way; nothing is to be read yet. */
export async function opens(s: Scene): Promise<void> {
  if (s.way.isDialled) return play(s, connects, again);
  if (s.listener === undefined) await listens()(s);
  await play(s, nothingToAccept, dials, accepts, nothingToAccept, again);
}

async function connects(s: Scene): Promise<void> {
  const server = await serverAt(s, s.way.host);
  begin(s, await s.thread.call('connect', address(s.way.host, server.port)));
  await event(WRITABLE)(s);
  const local = await s.thread.call('localAddress', s.connection.handle);
  // Others were closed at once: see connectsAndCloses().
  for (s.peer = await server.next(); s.peer.remote !== local; s.peer = await server.next())
    await s.peer.close();
}

/** Accepted connections have the settings from the start. */
export const hasSettings = (s: Scene) => (s.way.isDialled ? does('keepAlive')(s) : undefined);

export async function hasAddresses(s: Scene): Promise<void> {
  const { handle } = s.connection;
  assert.equal(await s.thread.call('peerAddress', handle), s.peer.local);
  assert.equal(await s.thread.call('localAddress', handle), s.peer.remote);
  assert.ok((await s.thread.call('descriptor', handle)) > 2);
}

/** These calls for the connection, in one go. */
export function does(...calls: ('shutdown' | 'reset' | 'close' | 'keepAlive')[]): Step {
  return s => s.thread.calls(...calls.map((call): Call => [call, s.connection.handle]));
}

/** An event since the last read, or since fills(). */
export function event(mask: number): Step {
  return s => s.thread.eventAfter(s.connection.handle, s.connection.seen, mask);
}

export const neverHad = (mask: number) => (s: Scene) => assert.ok(!s.thread.had(s.connection.handle, mask));
export const again = async (s: Scene) => assert.equal(await readOnce(s, 1), AGAIN);

/** Exactly that many bytes. */
export function reads(count: number, space?: number): Step {
  return async s => {
    for (const goal = s.connection.read + count; s.connection.read < goal; ) {
      const left = goal - s.connection.read;
      const got = await readNext(s, space ?? Math.min(left, PIECE));
      assert.ok(got > 0 && got <= left, `read() gave ${got}, with ${left} bytes left`);
    }
  };
}

/** Instead of bytes; 0 is the end. If FAILED has reported an error, reads may end with 0 as well. */
export function readGives(code: number): Step {
  return async s => {
    const { handle } = s.connection;
    const isFailed = s.thread.had(handle, FAILED);
    const result = await readNext(s, 10);
    assert.equal(result === 0 && isFailed ? await s.thread.call('failure', handle) : result, code);
  };
}

export function writes(count: number): Step {
  return async ({ thread, connection }) => {
    const { handle } = connection;
    for (const goal = connection.written + count; connection.written < goal; ) {
      const bytes = pattern(connection.written, Math.min(goal - connection.written, PIECE));
      const taken = await thread.untilNotAgain(handle, () => thread.call('write', handle, bytes));
      assert.ok(taken > 0, `write() gave ${taken}`);
      connection.written += taken;
      if (taken < bytes.length) await thread.eventAfter(handle, thread.events(handle).length, WRITABLE);
    }
  };
}

/** Writes until nothing more is taken and the peer makes no room. That must not be much. */
export async function fills(s: Scene): Promise<void> {
  const { thread, connection } = s;
  const { handle } = connection;
  for (let isFull = false; !isFull; ) {
    const taken = await thread.call('write', handle, pattern(connection.written, PIECE));
    connection.seen = thread.events(handle).length;
    connection.written += Math.max(taken, 0);
    assert.ok(connection.written <= MOST_TAKEN, `write() took ${connection.written} bytes`);
    if (taken > 0) continue;
    assert.equal(taken, AGAIN);
    await rests()(s);
    isFull = !thread.had(handle, WRITABLE, connection.seen) || thread.had(handle, FAILED);
  }
}

/** At once, or after the event that follows AGAIN. */
export async function cannotWrite({ thread, connection: { handle } }: Scene): Promise<void> {
  const result = await thread.untilNotAgain(handle, () => thread.call('write', handle, pattern(0, 5)));
  assert.ok(result < AGAIN, `write() gave ${result}`);
}

/** Inside the reactor's thread, from here on: every byte and FIN return to the peer. */
export const echoes = (s: Scene) => s.thread.call('flow', s.connection.handle, s.connection.handle);

/** In one go; the turn comes at the last of these times from now. */
export function wakesIn(...ms: number[]): Step {
  return async ({ thread }) => {
    const before = thread.turns.length;
    const asked = await thread.calls(...ms.map((each): Call => ['wakeIn', each]));
    await thread.until(() => thread.turns.length > before);
    const early = (asked.at(-1) as number) - thread.turns[before];
    assert.ok(early <= 0, `${early} ms early`);
  };
}

/** As often in all, and not more. */
export function turned(count: number): Step {
  return async s => {
    await s.thread.until(() => s.thread.turns.length >= count);
    await rests()(s);
    assert.equal(s.thread.turns.length, count);
  };
}

export const stops = async (s: Scene) => assert.equal(await s.thread.stop(), 0);

// The peer.

/** The peer is in the backlog afterwards. */
export async function dials(s: Scene): Promise<void> {
  s.peer = await dial({ host: s.way.host, port: s.listener.port }, s.outside);
  s.dialled.add(s.peer);
}

/** The reactor knows of it, and has not accepted it. */
export async function dialsAndWaits(s: Scene): Promise<void> {
  const { handle } = s.listener;
  const seen = s.thread.events(handle).length;
  await dials(s);
  await s.thread.eventAfter(handle, seen, READABLE);
}

export function isRefused(host: string): Step {
  return s => assert.rejects(dial({ host, port: s.listener.port }, s.outside), { code: 'ECONNREFUSED' });
}

export const peerSends = (count: number) => (s: Scene) => s.peer.send(count);
/** Over IPv4: the reactor, or what it has left the connection to, has read everything. */
export async function allIsRead({ peer }: Scene): Promise<void> {
  // `tx_queue:rx_queue`.
  const left = () => peer.procTcp().peer[4].split(':')[0] + peer.procTcp().reactor[4].split(':')[1];
  while (/[^0]/.test(left())) await sleep(1);
}

export const peerTakes = (count: number) => (s: Scene) => s.peer.take(count);
export const peerEnds = (s: Scene) => void s.peer.socket.end();
export const peerResets = (s: Scene) => s.peer.reset();
export const peerCloses = (s: Scene) => s.peer.close();

/** How the stream ends: `end` after every byte that was written, or `count`; `reset` after any; or `whatever`. */
export function peerSees(how: 'end' | 'reset' | 'whatever', count?: number): Step {
  return async s => {
    await s.peer.take();
    if (how !== 'whatever') assert.equal(s.peer.over, how === 'reset' ? 'ECONNRESET' : how);
    if (how === 'end') assert.equal(s.peer.taken, count ?? s.connection.written);
  };
}

export const exchanges = (s: Scene) => play(s, peerSends(5), reads(5), writes(8), peerTakes(8));

// What steps are made of.

export function address(place: string, port = 0): SocketAddress {
  const dualStack = place === 'both';
  return { address: parseIp(dualStack ? '::' : place) ?? assert.fail(place), port, dualStack };
}

/** A server outside the reactor. */
export function serverAt(s: Scene, host: string): Promise<Server> {
  const server = s.servers.get(host) ?? serve({ host, port: 0 }, s.outside);
  s.servers.set(host, server);
  return server;
}

/** Waits for a connection; returns its handle or an error code. */
export function acceptNext({ thread, listener: { handle } }: Scene): Promise<number> {
  return thread.untilNotAgain(handle, () => thread.call('accept', handle));
}

/** Makes it the current connection. */
export function begin(s: Scene, handle: number): void {
  assert.ok(handle >= 0, `the handle is ${handle}`);
  s.handles.push(handle);
  s.connection = { handle, read: 0, written: 0, next: 'more', seen: 0 };
}

/** After AGAIN or a short read, it goes on only when the port's rules allow it. */
async function readNext(s: Scene, space: number): Promise<number> {
  for (;;) {
    const { handle, next, seen } = s.connection;
    const isEnding = s.thread.had(handle, HUNG_UP | FAILED);
    const mustWait = next === 'after AGAIN' || (next === 'after short' && !isEnding);
    if (mustWait) await s.thread.eventAfter(handle, seen);
    const count = await readOnce(s, space);
    if (count !== AGAIN) return count;
  }
}

async function readOnce({ thread, connection }: Scene, space: number): Promise<number> {
  const { count, bytes } = await thread.call('read', connection.handle, space);
  isPattern(bytes, connection.read);
  connection.read += bytes.length;
  connection.seen = thread.events(connection.handle).length;
  connection.next = count === AGAIN ? 'after AGAIN' : count > 0 && count < space ? 'after short' : 'more';
  return count;
}
