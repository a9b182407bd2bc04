// For tests: an adapter of the I/O port in memory, without sockets or threads, with a clock that the test moves. The
// test plays the peers (scripted-peer.samples.ts) and decides when events are delivered and in which order. It follows
// the port's rules as Linux does with epoll or, with `reports: 'changes'`, as node:net does; where the port leaves a
// choice, it takes the harsher one. Calls that break a rule throw and are listed in `violations`.
//
// Not here, since they need a kernel: shared ports, adopted listeners, TCP keepalive, given descriptors.

import { formatIpPort } from '../../wire/ip-address.ts';
import {
  AGAIN,
  BROKEN,
  EXHAUSTED,
  FAILED,
  HUNG_UP,
  READABLE,
  RESET,
  type Reactor,
  type ReactorHandlers,
  type SocketAddress,
  TIMED_OUT,
  WRITABLE,
} from './reactor.ts';
import { type Link, newLink, ScriptedPeer } from './scripted-peer.samples.ts';

/** The first handle; lower numbers are the standard streams. */
const FIRST_HANDLE = 3;
/** More steps than any script needs: beyond that, the stages are busy for no reason. */
const MAX_STEPS = 100_000;

/** How a backend answers a connect: it accepts, never answers, or fails with an error code, by FAILED or at once. */
export type ConnectAnswer = 'accept' | 'silence' | number | { readonly atOnce: number };

export interface ScriptedOptions {
  readonly capacity?: number;
  /**
   * `state`, as epoll: an event reports everything that the handle is ready for. `changes`, as node:net: only what has
   * changed, and the end of the stream once everything before it is read; writes are taken whole or not at all.
   */
  readonly reports?: 'state' | 'changes';
}

interface Listener {
  readonly address: SocketAddress;
  readonly backlog: Link[];
  isQuiet: boolean;
}

/** An event that was fetched and is not dispatched yet. */
interface Fetched {
  readonly handle: number;
  readonly owner: Link | Listener;
  readonly events: number;
}

export class ScriptedReactor implements Reactor {
  readonly capacity: number;
  readonly readSize = Infinity;
  readonly reports: 'state' | 'changes';
  /** Broken rules of the port. */
  readonly violations: string[] = [];
  /** The backends' ends of all connections that were dialled, in order. */
  readonly dialled: ScriptedPeer[] = [];
  /** By address and port; by default every backend accepts. */
  answer: (to: string) => ConnectAnswer = () => 'accept';
  /** No descriptor is left, for accept() and connect(). */
  isExhausted = false;
  /** The handle whose peer gets the bytes that are read from this one, or -1. Its stalls forbid reading. */
  targetOf: (handle: number) => number = () => -1;
  /** The most bytes that the next read() finds; the rest arrives right after it. */
  mostRead: () => number = () => Infinity;
  /** The most bytes that the next write() has room for; there is room again right after it. 0 never comes twice. */
  mostWritten: () => number = () => Infinity;
  /** Called before each read(), write() and shutdown(): peers act at any moment, within a stage too. */
  meanwhile: () => void = () => {};
  /** Number of connections accepted. */
  accepted = 0;
  readonly #peers = new Map<Link, ScriptedPeer>();
  readonly #owners = new Map<number, Link | Listener>();
  readonly #ready = new Set<Link | Listener>();
  #fetched: Fetched[] = [];
  #handlers: ReactorHandlers | undefined;
  #now = 1_000_000;
  #alarmAt = Infinity;
  #turnAsked = false;
  #stalledMs = 0;

  constructor({ capacity = 64, reports = 'state' }: ScriptedOptions = {}) {
    this.capacity = capacity;
    this.reports = reports;
  }

  // The script's side.

  /** A client connects to that listener. It is refused if nothing listens there or new handshakes are rejected. */
  connects(listener: number, address: Uint8Array, port: number): ScriptedPeer {
    const link = newLink(this.reports, formatIpPort(address, 0, port), address, port);
    const peer = this.#newPeer(link);
    const owner = this.#owners.get(listener);
    if (owner === undefined || !('backlog' in owner) || owner.isQuiet) {
      link.isBroken = true;
      link.peerEnd = 'reset';
      return peer;
    }
    owner.backlog.push(link);
    this.#ready.add(owner);
    return peer;
  }

  /** Delivers one event: `pick` chooses among those fetched together. False when nothing is left to deliver. */
  step(pick = 0): boolean {
    if (this.#fetched.length === 0) {
      if (this.#turnAsked && this.#ready.size === 0) return this.#turn();
      this.#fetch();
      if (this.#fetched.length === 0) return this.#turnAsked && this.#turn();
    }
    const [{ handle, owner, events }] = this.#fetched.splice(pick % this.#fetched.length, 1);
    if (this.#owners.get(handle) === owner) this.#handlers?.event(handle, events);
    // The loop turns after each set of events, whatever has become ready meanwhile.
    if (this.#fetched.length === 0 && this.#turnAsked) this.#turn();
    return true;
  }

  /** Delivers all events. */
  settle(): void {
    for (let steps = 0; this.step(); steps++)
      if (steps === MAX_STEPS) throw this.#violation('the stages never come to rest');
  }

  /** Lets time pass, and delivers everything that happens meanwhile. */
  passes(ms: number): void {
    const until = this.#now + ms;
    this.settle();
    for (let wakes = 0; ; wakes++) {
      if (wakes === MAX_STEPS) throw this.#violation('the stages wake for no reason');
      const next = Math.min(this.#alarmAt, ...this.#stalls());
      if (next > until) break;
      this.#now = Math.max(this.#now, next);
      this.#failStalled();
      if (this.#alarmAt <= this.#now) this.#turn();
      this.settle();
    }
    this.#now = until;
  }

  /** Handles that are open, without listeners. */
  get open(): number[] {
    return [...this.#owners].flatMap(([handle, owner]) => ('backlog' in owner ? [] : [handle]));
  }

  /** The other end of an open connection. */
  peerAt(handle: number): ScriptedPeer | undefined {
    const owner = this.#owners.get(handle);
    return owner === undefined || 'backlog' in owner ? undefined : this.#peers.get(owner);
  }

  /** When turn() was requested next; Infinity if it was not. */
  get alarmAt(): number {
    return this.#turnAsked ? this.#now : this.#alarmAt;
  }

  // The port.

  /** Returns at once: the script delivers the events. */
  run(handlers: ReactorHandlers): void {
    this.#handlers = handlers;
  }

  stop(): void {
    this.#handlers = undefined;
    for (const handle of this.#owners.keys()) this.close(handle);
  }

  now(): number {
    return this.#now;
  }

  wakeAt(time: number): void {
    if (Number.isNaN(time)) throw this.#violation('wakeAt(NaN)');
    this.#alarmAt = time;
  }

  soon(): void {
    this.#turnAsked = true;
  }

  listen(address: SocketAddress, opened: (result: number) => void): void {
    const handle = this.#free();
    if (handle >= 0) this.#owners.set(handle, { address, backlog: [], isQuiet: false });
    opened(handle);
  }

  listeningPort(listener: number): number {
    return this.#listener(listener, 'listeningPort').address.port;
  }

  accept(listener: number): number {
    const { backlog } = this.#listener(listener, 'accept');
    if (backlog.length === 0) return AGAIN;
    const handle = this.#free();
    if (handle < 0) {
      // node:net closes the connection; the kernel leaves it in the backlog.
      if (this.reports === 'changes') this.#cutOff(backlog.shift() as Link);
      return handle;
    }
    const link = backlog.shift() as Link;
    this.#own(handle, link);
    link.stalledMs = this.#stalledMs;
    this.accepted++;
    return handle;
  }

  quiesce(listener: number): void {
    // node:net cannot reject handshakes.
    this.#listener(listener, 'quiesce').isQuiet = this.reports === 'state';
  }

  connect({ address, port }: SocketAddress): number {
    const name = formatIpPort(address, 0, port);
    const answer = this.answer(name);
    if (typeof answer === 'object') return answer.atOnce;
    const handle = this.#free();
    if (handle < 0) return handle;
    const link = newLink(this.reports, name, address, port);
    link.isConnecting = true;
    link.isRegistered = true;
    this.#own(handle, link);
    const peer = this.#newPeer(link);
    this.dialled.push(peer);
    if (answer === 'accept') peer.accepts();
    else if (answer !== 'silence') peer.refuses(answer);
    return handle;
  }

  failure(handle: number): number {
    const link = this.#link(handle, 'failure');
    const { error } = link;
    if (this.reports === 'state') link.error = 0;
    return error === 0 ? BROKEN : error;
  }

  descriptor(handle: number): number {
    this.#link(handle, 'descriptor');
    return handle;
  }

  peerAddress(handle: number, into: Uint8Array, at: number): number {
    const link = this.#link(handle, 'peerAddress');
    if (link.isBroken && this.reports === 'changes') return -1;
    into.set(link.address, at);
    return link.port;
  }

  localAddress(handle: number, into: Uint8Array, at: number): number {
    const link = this.#link(handle, 'localAddress');
    if (link.isBroken) return -1;
    into.fill(0, at, at + 10).fill(255, at + 10, at + 12);
    into.set([192, 0, 2, 254], at + 12);
    return 443;
  }

  keepalive(): void {}

  stalled(ms: number): void {
    this.#stalledMs = ms;
  }

  keepAlive(handle: number): void {
    this.#link(handle, 'keepAlive').stalledMs = this.#stalledMs;
  }

  read(handle: number, into: Uint8Array, from: number, to: number): number {
    this.meanwhile();
    const link = this.#link(handle, 'read');
    if (from >= to) throw this.#violation('read() without space');
    const target = this.#owners.get(this.targetOf(handle));
    if (target !== undefined && !('backlog' in target) && target.isFull && !target.isBroken)
      throw this.#violation(`read() from ${link.name} while ${target.name} is stalled`);
    const count = link.inbox.take(into, from, Math.min(to, from + Math.max(this.mostRead(), 1)));
    if (count > 0) {
      if (count < to - from) this.#readToEnd(link);
      return count;
    }
    if (link.error !== 0) {
      const { error } = link;
      // The kernel reports an error once, node:net each time.
      if (this.reports === 'state') link.error = 0;
      return error;
    }
    if (link.isBroken || (link.hasEnded && link.isEndSeen)) return 0;
    this.#readToEnd(link);
    return AGAIN;
  }

  write(handle: number, bytes: Uint8Array, from: number, to: number): number {
    this.meanwhile();
    const link = this.#link(handle, 'write');
    if (from >= to) throw this.#violation('write() of nothing');
    if (link.isShut) throw this.#violation(`write() to ${link.name} after shutdown()`);
    if (link.isConnecting) return AGAIN;
    if (link.isBroken) return this.#writeToBroken(link);
    const most = Math.max(this.mostWritten(), link.isFull ? 1 : 0);
    const room = Math.max(0, Math.min(link.room - link.pipe.length, most));
    const taken = room > 0 && this.reports === 'changes' ? to - from : Math.min(room, to - from);
    if (taken > 0) link.pipe.put(bytes.subarray(from, from + taken));
    link.isFull = taken < to - from;
    if (link.isFull) {
      link.fullSince = this.#now;
      this.#register(link);
    }
    link.deliver();
    if (link.isFull && link.pipe.length < link.room) this.#changed(link, WRITABLE);
    return taken === 0 ? AGAIN : taken;
  }

  shutdown(handle: number): void {
    this.meanwhile();
    const link = this.#link(handle, 'shutdown');
    if (link.isFull && !link.isBroken)
      throw this.#violation(`shutdown() of ${link.name} before it took all bytes`);
    link.isShut = true;
    link.deliver();
    this.#changed(link, 0);
  }

  reset(handle: number): void {
    const link = this.#disown(handle);
    if (link !== undefined) this.#cutOff(link);
  }

  close(handle: number): void {
    const owner = this.#owners.get(handle);
    if (owner !== undefined && 'backlog' in owner) {
      this.#owners.delete(handle);
      for (const link of owner.backlog) this.#cutOff(link);
      return;
    }
    const link = this.#disown(handle);
    if (link === undefined) return;
    // Unread bytes turn the close into a reset, which may overtake bytes on their way.
    if (link.inbox.length > 0 || link.isConnecting) return this.#cutOff(link);
    link.isShut = true;
    link.deliver();
  }

  give(handle: number): number {
    this.#disown(handle);
    return handle;
  }

  #newPeer(link: Link): ScriptedPeer {
    const peer = new ScriptedPeer(link, this.#changed);
    this.#peers.set(link, peer);
    return peer;
  }

  #own(handle: number, link: Link): void {
    link.handle = handle;
    this.#owners.set(handle, link);
  }

  #disown(handle: number): Link | undefined {
    const owner = this.#owners.get(handle);
    if (owner === undefined || 'backlog' in owner) return undefined;
    this.#owners.delete(handle);
    this.#ready.delete(owner);
    owner.handle = -1;
    return owner;
  }

  #free(): number {
    if (this.isExhausted) return EXHAUSTED;
    for (let handle = FIRST_HANDLE; handle < this.capacity; handle++)
      if (!this.#owners.has(handle)) return handle;
    return EXHAUSTED;
  }

  #cutOff(link: Link): void {
    link.isBroken = true;
    link.pipe.clear();
    link.peerEnd = 'reset';
  }

  #link(handle: number, call: string): Link {
    const owner = this.#owners.get(handle);
    if (owner === undefined || 'backlog' in owner)
      throw this.#violation(`${call}() of handle ${handle}, which is not an open connection`);
    return owner;
  }

  #listener(handle: number, call: string): Listener {
    const owner = this.#owners.get(handle);
    if (owner === undefined || !('backlog' in owner))
      throw this.#violation(`${call}() of handle ${handle}, which is not a listener`);
    return owner;
  }

  #violation(text: string): Error {
    this.violations.push(text);
    return new Error(text);
  }

  /** A failed write of node:net destroys the socket with what is unread; the kernel keeps that. */
  #writeToBroken(link: Link): number {
    const error = link.error === 0 ? RESET : link.error;
    if (this.reports === 'state') link.error = 0;
    else link.inbox.clear();
    return error;
  }

  /** Nothing is left to read for now: registers for events, and node:net finds the end only now. */
  #readToEnd(link: Link): void {
    if (this.reports === 'state') this.#register(link);
    if (link.inbox.length > 0) this.#changed(link, READABLE);
    else if (this.reports === 'changes' && link.hasEnded && !link.isEndSeen)
      this.#changed(link, READABLE | HUNG_UP);
  }

  /** Registering reports the present state. */
  #register(link: Link): void {
    if (link.isRegistered) return;
    link.isRegistered = true;
    this.#ready.add(link);
  }

  /** Something changed for that handle: an event is due. */
  readonly #changed = (link: Link, events: number): void => {
    link.changes |= events;
    if (link.handle >= 0 && (link.isRegistered || this.reports === 'changes')) this.#ready.add(link);
  };

  #fetch(): void {
    for (const owner of this.#ready) {
      const events = 'backlog' in owner ? READABLE : this.#eventsOf(owner);
      const handle = 'backlog' in owner ? this.#handleOf(owner) : owner.handle;
      if (events !== 0 && handle >= 0) this.#fetched.push({ handle, owner, events });
    }
    this.#ready.clear();
  }

  #handleOf(listener: Listener): number {
    return this.#owners.entries().find(([, owner]) => owner === listener)?.[0] ?? -1;
  }

  #eventsOf(link: Link): number {
    if (this.reports === 'changes') {
      const { changes } = link;
      link.changes = 0;
      if ((changes & HUNG_UP) !== 0) link.isEndSeen = true;
      return changes;
    }
    if (link.isConnecting) return 0;
    link.isEndSeen = link.hasEnded;
    let events = 0;
    if (link.inbox.length > 0) events |= READABLE;
    if (link.hasEnded) events |= READABLE | HUNG_UP;
    if (link.isBroken) events |= READABLE | WRITABLE | HUNG_UP;
    if (link.error !== 0) events |= READABLE | FAILED;
    if (link.isShut || link.pipe.length < link.room) events |= WRITABLE;
    return events;
  }

  #turn(): boolean {
    this.#turnAsked = false;
    this.#alarmAt = Infinity;
    this.#handlers?.turn();
    return true;
  }

  *#stalls(): Generator<number> {
    for (const owner of this.#owners.values())
      if (!('backlog' in owner) && isStalling(owner)) yield owner.fullSince + owner.stalledMs;
  }

  #failStalled(): void {
    for (const owner of this.#owners.values()) {
      if ('backlog' in owner || !isStalling(owner) || owner.fullSince + owner.stalledMs > this.#now) continue;
      this.#cutOff(owner);
      owner.error = TIMED_OUT;
      this.#changed(owner, READABLE | FAILED);
    }
  }
}

function isStalling(link: Link): boolean {
  return link.stalledMs > 0 && link.isFull && !link.isBroken;
}
