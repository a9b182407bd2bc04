// Connections to HTTP backends that serve one request after the other, and the HTTP/1 client that speaks on them: of
// requests without a body, which may be sent again. node:http's own client costs three times as much CPU for the same
// (docs/performance.md). They are kept by backend slot: a slot belongs to one route of one cluster, so that clusters never
// share a connection.

import type { Socket } from 'node:net';
import { type ChunkedBody, readChunkedBody, startChunkedBody } from '../../wire/chunked-body.ts';
import {
  framingOf,
  parseResponseHead,
  type ResponseFraming,
  type ResponseHead,
} from '../../wire/http-response.ts';
import type { FaultOwner } from '../guard.ts';

/** Shorter than the 5 s after which common servers close: a request must not meet a close on its way. */
const IDLE_MS = 4000;
/** Idle connections kept for one backend. */
const MAX_IDLE = 64;
const SWITCHING_PROTOCOLS = 101;
const NO_TRAILERS: readonly string[] = [];

/** Whoever asks, told what comes: `answered` once, then data, then one of `ended` and `failed`. */
export interface ResponseReceiver extends FaultOwner {
  /** 1xx: more is to come. */
  informational(head: ResponseHead): void;
  answered(head: ResponseHead): void;
  /** The head stands alone: its body comes later, maybe much later. */
  waiting(): void;
  /** False: no more until `resume`. */
  data(bytes: Uint8Array): boolean;
  /** With the last of the data, where there is some. The connection is not the asker's any more. */
  ended(last: Uint8Array | undefined, trailers: readonly string[]): void;
  /** Closed in the middle, or what it says is no HTTP. */
  failed(cause: Error): void;
}

export class KeptConnections {
  /** By backend slot, the one used last at the end. */
  readonly #idle = new Map<number, KeptConnection[]>();
  readonly #all = new Set<KeptConnection>();
  readonly #onFault: (error: unknown) => void;
  readonly #now: () => number;

  /** `onFault` is told of exceptions of our own while nobody asks. */
  constructor(onFault: (error: unknown) => void, now: () => number = () => performance.now()) {
    this.#onFault = onFault;
    this.#now = now;
  }

  take(backendSlot: number): KeptConnection | undefined {
    const idle = this.#idle.get(backendSlot);
    for (;;) {
      const connection = idle?.pop();
      if (connection === undefined || connection.isUsable) return connection;
      connection.destroy();
    }
  }

  /** One that was just opened. */
  add(backendSlot: number, socket: Socket): KeptConnection {
    const connection: KeptConnection = new KeptConnection(socket, {
      free: () => this.#keep(backendSlot, connection),
      closed: () => this.#forget(backendSlot, connection),
      onFault: this.#onFault,
    });
    this.#all.add(connection);
    return connection;
  }

  /** Of a backend whose addresses are others now. */
  closeIdle(backendSlot: number): void {
    for (const connection of this.#idle.get(backendSlot)?.splice(0) ?? []) connection.destroy();
  }

  /** Closes what has been idle for long. Called now and then, so that none needs a timer of its own. */
  lookAround(): void {
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
  /** Whether it has served a request before this one. */
  isReused = false;
  readonly #socket: Socket;
  readonly #owner: Owner;
  #receiver: ResponseReceiver | undefined;
  #method = '';
  /** A head that is not whole. */
  #held: Buffer | undefined;
  /** undefined until the head is whole. */
  #framing: ResponseFraming | undefined;
  /** Of a body whose length is known. */
  #left = 0;
  #chunks: ChunkedBody | undefined;
  #cause: Error | undefined;

  constructor(socket: Socket, owner: Owner) {
    this.#socket = socket;
    this.#owner = owner;
    socket.on(
      'data',
      this.#guard((chunk: Buffer) => this.#data(chunk)),
    );
    socket.on(
      'end',
      this.#guard(() => this.#fin()),
    );
    socket.on(
      'error',
      this.#guard((error: Error) => {
        this.#cause = error;
      }),
    );
    socket.on(
      'close',
      this.#guard(() => this.#closed()),
    );
  }

  /** What throws is the fault of whoever has asked by then, also where the last of its answer is what threw. */
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

  /** For that asker alone: the connection may be another's by now. */
  resume(receiver: ResponseReceiver): void {
    if (this.#receiver === receiver) this.#socket.resume();
  }

  destroy(): void {
    this.#receiver = undefined;
    this.#socket.destroy();
  }

  #data(chunk: Buffer): void {
    // Nobody has asked: whatever that is, the next to ask must not take it for its answer.
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
    else if (framing.body !== 'until-close') this.#left = framing.body;
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
    const to = Math.min(bytes.length, from + this.#left);
    this.#left -= to - from;
    if (this.#left > 0) {
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

  /** `isMore`: bytes follow that nobody has asked for. */
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
    this.#cause = new Error(`The backend does not answer in HTTP/1: ${what}`);
    this.#socket.destroy();
  }

  /** The backend's FIN is the end of a body that has no other, and else too early. */
  #fin(): void {
    if (this.#receiver !== undefined && this.#framing?.body === 'until-close') {
      this.#end(this.#receiver, undefined, NO_TRAILERS, false);
    } else this.#socket.destroy();
  }

  #closed(): void {
    this.#owner.closed();
    const receiver = this.#receiver;
    this.#receiver = undefined;
    receiver?.failed(this.#cause ?? new Error('The backend closed'));
  }
}
