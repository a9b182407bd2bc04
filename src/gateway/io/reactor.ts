// The I/O port: a readiness reactor with integer handles. Everything from accept to tunnel is written once above it and
// knows neither file descriptors nor Node's streams. Two adapters implement it: `epoll-reactor.ts` for Linux, and
// `net-reactor.ts` everywhere. Every adapter passes the suite in `reactor.contract.ts`.
//
// Rules that both sides rely on:
// - A handle is a small integer below `capacity`. It belongs to the caller of listen, accept or connect until close() or
//   reset(); after that no event for it is delivered, and the number may be reused. Closing or resetting a handle that is
//   not open does nothing.
// - Calls never block and never throw. They return a count, AGAIN, or one of the error codes below.
// - Readiness is edge-triggered: READABLE comes when something new can be read, WRITABLE when writing can continue. A
//   caller that stops before AGAIN must resume on its own (see `soon`); after AGAIN an event follows. A read that filled
//   less than its space has taken everything, as if AGAIN had followed; only after HUNG_UP read on to 0. A write that took
//   less than it was given has filled everything in the same way. READABLE and WRITABLE may be spurious, but WRITABLE
//   without FAILED never comes before a connect has succeeded.
// - Bytes that write() took are delivered: close() does not lose them. Exceptions: the peer resets, reset() is called, or
//   bytes from the peer are unread at close() or arrive after it; the kernel then sends a reset.

import type { Socket } from 'node:net';
import type { MessagePort } from 'node:worker_threads';

export const AGAIN = -1;
/** The peer reset the connection. */
export const RESET = -2;
export const REFUSED = -3;
export const UNREACHABLE = -4;
export const TIMED_OUT = -5;
/** No descriptor, handle or kernel memory left; a later attempt may succeed. */
export const EXHAUSTED = -6;
export const IN_USE = -7;
export const DENIED = -8;
/** An address this machine does not have. */
export const NOT_AVAILABLE = -9;
export const BROKEN = -10;

const errorTexts: Record<number, string> = {
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
  return errorTexts[code] ?? 'failed';
}

export const READABLE = 1;
/** Also reports that a connect succeeded. */
export const WRITABLE = 2;
/**
 * A connect failed (see `failure`), or the peer reset. Reads still return the bytes before, as long as no write has
 * failed; then RESET, or 0 if the error was already reported. If nothing is read, FAILED may not come.
 */
export const FAILED = 4;
/** The peer has sent FIN; bytes before it may still be unread. An adapter that cannot detect it early omits it. */
export const HUNG_UP = 8;

/** An IP address (16 bytes, IPv4 as ::ffff:a.b.c.d) with a port. */
export interface SocketAddress {
  readonly address: Uint8Array;
  readonly port: number;
  /** For a listener: accept IPv4 and IPv6 on one socket if the machine has both. */
  readonly dualStack?: boolean;
  /** For a listener: a listening socket that is open already. listen() takes a duplicate, which others may share. */
  readonly descriptor?: number;
}

export interface ReactorHandlers {
  /** `events` is a set of READABLE, WRITABLE, FAILED, HUNG_UP. */
  event(handle: number, events: number): void;
  /** Called after soon(), and when the time given to wakeAt() has come; for nothing else. */
  turn(): void;
  /** A message from the control thread. */
  message(message: unknown): void;
}

export interface Reactor {
  readonly capacity: number;
  /** How many bytes to read at a time, at most: what is written at once costs memory in some adapters. */
  readonly readSize: number;

  /** Serves events until stop(). An adapter may return at once and continue by callbacks. */
  run(handlers: ReactorHandlers, control: MessagePort): void;
  /** Closes every handle as close() does. No handler is called afterwards, and nothing keeps the thread from ending. */
  stop(): void;

  /** Milliseconds on a clock shared by all threads. It never goes back, and may stand still within an event. */
  now(): number;
  /** Requests turn() at that time; Infinity cancels. Only the last call counts. What has arrived by then is reported first. */
  wakeAt(time: number): void;
  /** Requests turn() once the current events are served. */
  soon(): void;

  /** Opens a listener that other threads of this process may open too. `opened` gets its handle or an error. */
  listen(address: SocketAddress, opened: (result: number) => void): void;
  /** The actual port of a listener. */
  listeningPort(listener: number): number;
  /**
   * AGAIN if no connection is waiting. On EXHAUSTED the waiting connection is closed or stays in the backlog, depending
   * on the adapter; if it stays, READABLE comes again when there is room.
   */
  accept(listener: number): number;
  /** Before a listener closes: rejects new handshakes if the platform can; those under way still complete. */
  quiesce(listener: number): void;
  /** WRITABLE reports success, FAILED failure. May fail at once with an error code. */
  connect(address: SocketAddress): number;
  /** Why a connect failed. */
  failure(handle: number): number;
  /** The descriptor's number, the lowest that was free; -1 if there is none (yet). Of listeners too. */
  descriptor(handle: number): number;
  /**
   * Writes the 16 address bytes and returns the port; -1 if the connection is already gone.
   */
  peerAddress(handle: number, into: Uint8Array, at: number): number;
  localAddress(handle: number, into: Uint8Array, at: number): number;
  /** Sets the TCP keepalive time; 0 turns it off. Accepted connections have it from the start. */
  keepalive(ms: number): void;
  /**
   * Fails a connection (FAILED, and reads finally return TIMED_OUT) whose peer has not acknowledged written bytes for
   * this long or, where the platform does not report that, has not taken bytes that the kernel could not buffer. 0
   * turns it off. Applies to connections accepted from now on.
   */
  stalled(ms: number): void;
  /** Applies both settings to a connected handle: worth the system calls only once the connection has lasted. */
  keepAlive(handle: number): void;

  /** Returns the number of bytes written to `into` at `from`; 0 is the end of the stream. */
  read(handle: number, into: Uint8Array, from: number, to: number): number;
  /** Returns how many of the bytes in [from, to) were taken; the caller may reuse the buffer at once. */
  write(handle: number, bytes: Uint8Array, from: number, to: number): number;
  /** Sends FIN after the written bytes. Reading continues, writing returns an error. */
  shutdown(handle: number): void;
  /** Sends RST at once and drops unsent bytes. */
  reset(handle: number): void;
  /** Connections still waiting on a listener are rejected, so call accept() until AGAIN first. */
  close(handle: number): void;
  /**
   * Ends this reactor's ownership of a connection without closing it, and yields what another owner opens it by: its
   * descriptor, or the socket itself. A descriptor is marked in `owned` as it leaves here, so that at every moment
   * somebody knows whose it is; until its owner says otherwise, closing it sends a reset.
   */
  give(handle: number, owned: Uint8Array): number | Socket;
}
