// Keep-alive connections to HTTP backends, and the HTTP/1 client on them, for requests that have no body and may be
// sent again. node:http's own client needs three times as much CPU (docs/performance.md). Connections are kept by
// backend slot: a slot belongs to one route of one cluster, so that clusters never share a connection.

import type { Socket } from 'node:net';
import { type ChunkedBody, readChunkedBody, startChunkedBody } from '../../wire/chunked-body.ts';
import {
  framingOf,
  parseResponseHead,
  type ResponseFraming,
  type ResponseHead,
} from '../../wire/http-response.ts';
import type { FaultOwner } from '../guard.ts';

/** Shorter than the 5 s after which common servers close, so that a request rarely crosses a close. */
const IDLE_MS = 4000;
/** Idle connections kept for one backend. */
const MAX_IDLE = 64;
const SWITCHING_PROTOCOLS = 101;
const NO_TRAILERS: readonly string[] = [];

/** Receives the response to one request: `answered` once, then `data`, then `ended` or `failed`. */
export interface ResponseReceiver extends FaultOwner {
  /** 1xx: more is to come. */
  informational(head: ResponseHead): void;
  answered(head: ResponseHead): void;
  /** The head came without any of its body, which may come much later. */
  waiting(): void;
  /** False: pause until `resume`. */
  data(bytes: Uint8Array): boolean;
  /** With the last data, if any. The connection may serve another request from now on. */
  ended(last: Uint8Array | undefined, trailers: readonly string[]): void;
  /** The backend closed too early, or the response is not HTTP. */
  failed(cause: Error): void;
}

export class KeptConnections {
  /** By backend slot, the most recently used one last. */
  readonly #idle = new Map<number, KeptConnection[]>();
  readonly #all = new Set<KeptConnection>();
  readonly #onFault: (error: unknown) => void;
  readonly #now: () => number;

  /** `onFault` gets exceptions of our own code on connections without a request. */
  constructor(onFault: (error: unknown) => void, now: () => number = () => performance.now()) {
    this.#onFault = onFault;
    this.#now = now;
  }

  /** The number of connections, idle or not. */
  get size(): number {
    return this.#all.size;
  }

  take(backendSlot: number): KeptConnection | undefined {
    const idle = this.#idle.get(backendSlot);
    for (;;) {
      const connection = idle?.pop();
      if (connection === undefined || connection.isUsable) return connection;
      connection.destroy();
    }
  }

  /** Takes a newly opened socket. */
  add(backendSlot: number, socket: Socket): KeptConnection {
    const connection: KeptConnection = new KeptConnection(socket, {
      free: () => this.#keep(backendSlot, connection),
      closed: () => this.#forget(backendSlot, connection),
      onFault: this.#onFault,
    });
    this.#all.add(connection);
    return connection;
  }

  /** For a backend whose addresses have changed. */
  closeIdle(backendSlot: number): void {
    for (const connection of this.#idle.get(backendSlot)?.splice(0) ?? []) connection.destroy();
  }

  /** Closes connections that were idle for too long. Called periodically, so that none needs its own timer. */
  sweep(): void {
    const latest = this.#now() - IDLE_MS;
    for (const [slot, idle] of this.#idle) {
      const stale = idle.filter(({ idleSince }) => idleSince <= latest);
      for (const connection of stale) connection.destroy();
      if (stale.length === idle.length) this.#idle.delete(slot);
      else if (stale.length > 0) this.#idle.set(slot, idle.slice(stale.length));
    }
  }

  destroy(): void {
    for (const connection of this.#all) connection.destroy();
  }

  #keep(backendSlot: number, connection: KeptConnection): void {
    let idle = this.#idle.get(backendSlot);
    if (idle === undefined) {
      idle = [];
      this.#idle.set(backendSlot, idle);
    }
    if (idle.length === MAX_IDLE) return connection.destroy();
    connection.idleSince = this.#now();
    idle.push(connection);
  }

  #forget(backendSlot: number, connection: KeptConnection): void {
    this.#all.delete(connection);
    const idle = this.#idle.get(backendSlot);
    const at = idle?.indexOf(connection) ?? -1;
    if (at >= 0) idle?.splice(at, 1);
  }
}

interface Owner extends FaultOwner {
  free(): void;
  closed(): void;
}

export class KeptConnection {
  idleSince = 0;
  /** Whether it has already served a request. */
  isReused = false;
  readonly #socket: Socket;
  readonly #owner: Owner;
  #receiver: ResponseReceiver | undefined;
  #method = '';
  /** The beginning of an incomplete head. */
  #held: Buffer | undefined;
  /** undefined until the head is complete. */
  #framing: ResponseFraming | undefined;
  /** Bytes left of a body whose length is known. */
  #remaining = 0;
  #chunks: ChunkedBody | undefined;
  #cause: Error | undefined;

  constructor(socket: Socket, owner: Owner) {
    this.#socket = socket;
    this.#owner = owner;
    socket.on(
      'data',
      this.#guard((chunk: Buffer) => this.#onData(chunk)),
    );
    socket.on(
      'end',
      this.#guard(() => this.#onFin()),
    );
    socket.on(
      'error',
      this.#guard((error: Error) => {
        this.#cause = error;
      }),
    );
    socket.on(
      'close',
      this.#guard(() => this.#onClose()),
    );
  }

  /** An exception is reported to the receiver at the start of the callback, even if its response ended in between. */
  #guard<Args extends unknown[]>(callback: (...args: Args) => void): (...args: Args) => void {
    return (...args) => {
      const receiver = this.#receiver;
      try {
        callback(...args);
      } catch (error) {
        this.destroy();
        (receiver ?? this.#owner).onFault(error);
      }
    };
  }

  get isUsable(): boolean {
    return this.#socket.readable && this.#socket.writable;
  }

  /** `text` is the whole request. */
  ask(method: string, text: string, receiver: ResponseReceiver): void {
    this.#receiver = receiver;
    this.#method = method;
    this.#socket.write(text, 'latin1');
  }

  /** Ignored unless that receiver still has the connection. */
  resume(receiver: ResponseReceiver): void {
    if (this.#receiver === receiver) this.#socket.resume();
  }

  destroy(): void {
    this.#receiver = undefined;
    this.#socket.destroy();
  }

  #onData(chunk: Buffer): void {
    // Bytes without a request: the next request must not take them for its response.
    if (this.#receiver === undefined) return this.destroy();
    if (this.#framing !== undefined) return this.#body(this.#receiver, chunk, 0);
    const bytes = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = undefined;
    this.#head(this.#receiver, bytes, 0);
  }

  #head(receiver: ResponseReceiver, bytes: Buffer, from: number): void {
    const head = parseResponseHead(bytes, from, bytes.length);
    if (head.kind === 'incomplete') {
      this.#held = bytes.subarray(from);
      return;
    }
    if (head.kind === 'reject') return this.#fail(head.reason);
    const { status, end } = head.value;
    if (status < 200) {
      if (status === SWITCHING_PROTOCOLS) return this.#fail('switch');
      receiver.informational(head.value);
      if (end < bytes.length && this.#receiver === receiver) this.#head(receiver, bytes, end);
      return;
    }
    const framing = framingOf(head.value, this.#method);
    if (framing === undefined) return this.#fail('framing');
    this.#framing = framing;
    if (framing.body === 'chunked') this.#chunks = startChunkedBody();
    else if (framing.body !== 'until-close') this.#remaining = framing.body;
    receiver.answered(head.value);
    if (this.#receiver !== receiver) return;
    if (end < bytes.length || framing.body === 0) this.#body(receiver, bytes, end);
    else receiver.waiting();
  }

  #body(receiver: ResponseReceiver, bytes: Buffer, from: number): void {
    if (this.#chunks !== undefined) return this.#chunked(receiver, this.#chunks, bytes, from);
    if (this.#framing?.body === 'until-close') {
      if (from < bytes.length) this.#pass(receiver, bytes.subarray(from));
      return;
    }
    const to = Math.min(bytes.length, from + this.#remaining);
    this.#remaining -= to - from;
    if (this.#remaining > 0) {
      if (from < to) this.#pass(receiver, bytes.subarray(from, to));
      return;
    }
    this.#end(receiver, from < to ? bytes.subarray(from, to) : undefined, NO_TRAILERS, to < bytes.length);
  }

  #chunked(receiver: ResponseReceiver, body: ChunkedBody, bytes: Buffer, from: number): void {
    let at = from;
    while (this.#receiver === receiver) {
      const part = readChunkedBody(body, bytes, at, bytes.length);
      if (part.kind === 'incomplete') return;
      if (part.kind === 'reject') return this.#fail(part.reason);
      if (part.kind === 'end') return this.#end(receiver, undefined, part.trailers, part.end < bytes.length);
      this.#pass(receiver, bytes.subarray(part.from, part.to));
      at = part.to;
    }
  }

  #pass(receiver: ResponseReceiver, bytes: Buffer): void {
    if (!receiver.data(bytes) && this.#receiver === receiver) this.#socket.pause();
  }

  /** `isMore`: bytes follow that belong to no request. */
  #end(
    receiver: ResponseReceiver,
    last: Buffer | undefined,
    trailers: readonly string[],
    isMore: boolean,
  ): void {
    const keepAlive = this.#framing?.keepAlive === true && !isMore && this.isUsable;
    this.#receiver = undefined;
    this.#framing = undefined;
    this.#chunks = undefined;
    this.isReused = true;
    if (!keepAlive) this.destroy();
    else {
      if (this.#socket.isPaused()) this.#socket.resume();
      this.#owner.free();
    }
    receiver.ended(last, trailers);
  }

  #fail(what: string): void {
    this.#cause = new Error(`The backend's response is not valid HTTP/1: ${what}`);
    this.#socket.destroy();
  }

  /** The backend's FIN ends a body without a length; otherwise it comes too early. */
  #onFin(): void {
    if (this.#receiver !== undefined && this.#framing?.body === 'until-close') {
      this.#end(this.#receiver, undefined, NO_TRAILERS, false);
    } else this.#socket.destroy();
  }

  #onClose(): void {
    this.#owner.closed();
    const receiver = this.#receiver;
    this.#receiver = undefined;
    receiver?.failed(this.#cause ?? new Error('The backend closed the connection'));
  }
}
