// The I/O port: a readiness reactor with integer handles. Everything from accept to tunnel is written once
// above it and knows neither file descriptors nor Node's streams. `net-reactor.ts` is the portable adapter.
// `reactor.contract.ts` is the suite that every adapter passes.
//
// Rules that both sides rely on:
// - A handle is a small integer below `capacity`. It belongs to whoever got it from listen, accept or connect
//   until close() or reset(); from then on no event for it is delivered, and the number may be given out anew. To close
//   or reset one that nobody has does nothing.
// - Calls never block and never throw. They answer a count, AGAIN, or one of the error words below.
// - Readiness is edge-triggered: READABLE comes when something new can be read, WRITABLE when writing can go on.
//   Whoever stops before AGAIN comes back by itself (see `soon`); after AGAIN an event follows. A read that
//   filled less than its space has taken everything, as if AGAIN had followed; only after HUNG_UP read on to 0.
//   A write that took less than it was given has filled everything in the same way. READABLE and WRITABLE may
//   come without cause, but WRITABLE without FAILED never before a connect has succeeded.
// - Bytes that write() took are delivered: close() does not lose them. Except when the peer resets, when reset()
//   is called, or when bytes of the peer are unread at close() or come after it: the kernel resets then.

import type { MessagePort } from 'node:worker_threads';

export const AGAIN = -1;
/** The peer reset the connection. */
export const RESET = -2;
export const REFUSED = -3;
export const UNREACHABLE = -4;
export const TIMED_OUT = -5;
/** No descriptor, handle or kernel memory left; trying again later may work. */
export const EXHAUSTED = -6;
export const IN_USE = -7;
export const DENIED = -8;
/** An address this machine does not have. */
export const NOT_AVAILABLE = -9;
export const BROKEN = -10;

const errorWords: Record<number, string> = {
  [RESET]: 'connection reset',
  [REFUSED]: 'connection refused',
  [UNREACHABLE]: 'unreachable',
  [TIMED_OUT]: 'timed out',
  [EXHAUSTED]: 'no file descriptor or memory left',
  [IN_USE]: 'address already in use',
  [DENIED]: 'permission denied',
  [NOT_AVAILABLE]: 'this machine has no such address',
  [BROKEN]: 'failed',
};

export function errorWord(code: number): string {
  return errorWords[code] ?? 'failed';
}

export const READABLE = 1;
/** Also: a connect succeeded. */
export const WRITABLE = 2;
/**
 * A connect failed (`failure` says why), or the peer reset. Reads still give what came before, as long as no write
 * has failed; then they answer RESET, or 0 where the error was told already. Where nothing is read, it may not come.
 */
export const FAILED = 4;
/** The peer has sent FIN; bytes before it may still be unread. An adapter that cannot know it early omits it. */
export const HUNG_UP = 8;

/** An IP address (16 bytes, IPv4 as ::ffff:a.b.c.d) with a port, or the path of a unix socket. */
export interface SocketAddress {
  readonly address: Uint8Array;
  readonly port: number;
  /** For a listener: take IPv4 and IPv6 on one socket where the machine has both. */
  readonly dualStack?: boolean;
  readonly path?: string;
}

export interface ReactorHandlers {
  /** `events` is a set of READABLE, WRITABLE, FAILED, HUNG_UP. */
  event(handle: number, events: number): void;
  /** After soon(), and when the time given to wakeAt() has come; for nothing else. */
  turn(): void;
  /** A message from the control thread. */
  message(message: unknown): void;
}

export interface Reactor {
  readonly capacity: number;

  /** Serves events until stop(). An adapter may return at once and go on by callbacks. */
  run(handlers: ReactorHandlers, control: MessagePort): void;
  /** Closes every handle as close() does. No handler is called any more, and nothing keeps the thread from ending. */
  stop(): void;

  /** Milliseconds on a clock that all threads of the process share. It never goes back, and may stand still within an event. */
  now(): number;
  /** Asks for turn() at that time; Infinity asks for none. The last call counts. */
  wakeAt(time: number): void;
  /** Asks for turn() once the events at hand are served. */
  soon(): void;

  /** Opens a listener that other threads of this process may open as well. `opened` gets its handle or an error. */
  listen(address: SocketAddress, opened: (result: number) => void): void;
  /** The port a listener really has. */
  listeningPort(listener: number): number;
  /**
   * AGAIN when nobody waits. On EXHAUSTED the one that waited is turned away or goes on waiting, as the adapter can;
   * if it waits, READABLE comes again when there is room.
   */
  accept(listener: number): number;
  /** Before a listener closes: new handshakes are turned away where the platform can; those under way still come. */
  quiesce(listener: number): void;
  /** WRITABLE tells success, FAILED failure. May fail at once with an error word. */
  connect(address: SocketAddress): number;
  /** Why a connect failed. */
  failure(handle: number): number;
  /** The process's number for it, which is the lowest that was free; -1 where there is none (yet). */
  descriptor(handle: number): number;
  /** Writes the 16 address bytes and answers the port; zeros for a unix socket; -1 when the connection is gone already. */
  peerAddress(handle: number, into: Uint8Array, at: number): number;
  localAddress(handle: number, into: Uint8Array, at: number): number;
  /** TCP keepalive after so long; 0 turns it off. Connections that are accepted have it from the start. */
  keepalive(ms: number): void;
  /**
   * Fails a connection (FAILED, and reads answer TIMED_OUT in the end) whose peer has for so long not acknowledged what
   * was written, or, where the platform does not tell that, not taken what the kernel could not. 0 turns it off. For
   * those that are accepted from now on. A unix socket may not be looked after: its peer is on this machine.
   */
  stalled(ms: number): void;
  /** Turns both on for one that was connected: worth their cost only once it has lasted. */
  keepAlive(handle: number): void;

  /** How many bytes now stand in [from, …); 0 is the end of the stream. */
  read(handle: number, into: Uint8Array, from: number, to: number): number;
  /** How many of the bytes in [from, to) were taken; the caller may reuse them at once. */
  write(handle: number, bytes: Uint8Array, from: number, to: number): number;
  /** Sends FIN after what was written. Reading goes on, writing answers an error. */
  shutdown(handle: number): void;
  /**
   * Answers a further descriptor of that connection, for another thread of this process to read and write by, or an error
   * word where there is none to be had. It is the caller's: it gives it away, or to discard(). Of the handle FAILED alone is
   * heard from then on, unless the other side has read the error, until it is read again; shutdown(), reset() and close() reach the peer as ever, whoever else has it open.
   */
  lend(handle: number): number;
  /** Closes what lend() gave and nobody took. */
  discard(descriptor: number): void;
  /** RST, at once; what is not sent yet is dropped. A unix socket knows no RST: its peer sees the end. */
  reset(handle: number): void;
  /** Of a listener: those that still wait are turned away, so accept() until AGAIN before. */
  close(handle: number): void;
}
