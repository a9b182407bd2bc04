// What handles do on their own in the contract suite, inside the reactor's thread. Each behaviour follows the port's
// rules exactly: it reads until AGAIN or a short read, and then touches the handle only after an event. An adapter that
// misses an event leaves it hanging.

import { createHash } from 'node:crypto';
import { AGAIN, FAILED, HUNG_UP, type SocketAddress, WRITABLE } from '../reactor.ts';
import { type Behaviour, type BehaviourHost, BUDGET } from './behaviour-host.ts';
import { type BehaviourName, pattern } from './messages.ts';
import { TunnelStream } from './tunnel-stream.ts';

const SCRIBBLE = 0xee;

export function behave(host: BehaviourHost, handle: number, name: BehaviourName): void {
  switch (name.kind) {
    case 'echo':
      return new TunnelStream(host, handle, handle).begin();
    case 'sink':
      return new Sink(host, handle, name.spaces).begin();
    case 'source':
      return new Source(host, handle, name.size, name.piece, name.last).begin();
    case 'tunnel': {
      const other = host.connect(name.to, undefined);
      if (other < 0) return host.reset(handle);
      return new TunnelStream(host, handle, other).begin();
    }
    case 'replace': {
      const replacement = new Replacement(host, name.group, name.to);
      for (const member of name.group) host.attach(member, replacement);
      return;
    }
    case 'lend': {
      const lending = new Lending(host, name.group);
      for (const member of name.group) host.attach(member, lending);
      return;
    }
    default:
  }
}

/** Reads everything, and reports how the stream ended. */
class Sink implements Behaviour {
  readonly #host: BehaviourHost;
  readonly #handle: number;
  readonly #spaces: readonly number[];
  readonly #hash = createHash('sha256');
  readonly #buffer: Uint8Array;
  #reads = 0;
  #count = 0;
  #hungUp = false;
  #failed = false;
  #over = false;

  constructor(host: BehaviourHost, handle: number, spaces: readonly number[]) {
    this.#host = host;
    this.#handle = handle;
    this.#spaces = spaces;
    this.#buffer = new Uint8Array(Math.max(...spaces));
  }

  begin(): void {
    this.#host.attach(this.#handle, this);
    this.turn();
  }

  event(_handle: number, events: number): void {
    if ((events & HUNG_UP) !== 0) this.#hungUp = true;
    if ((events & FAILED) !== 0) this.#failed = true;
    this.turn();
  }

  turn(): void {
    if (this.#over) return;
    for (let calls = 0; calls < BUDGET; calls++) {
      const space = this.#spaces[this.#reads++ % this.#spaces.length];
      const count = this.#host.io.read(this.#handle, this.#buffer, 0, space);
      if (count === AGAIN) return;
      if (count <= 0) return this.#end(count);
      this.#hash.update(this.#buffer.subarray(0, count));
      this.#count += count;
      if (count < space && !this.#hungUp && !this.#failed) return;
    }
    this.#host.later(this);
  }

  progress(): number {
    return this.#count;
  }

  #end(answer: number): void {
    this.#over = true;
    // If FAILED has reported the error, later reads may end with 0.
    const end = answer === 0 && this.#failed ? this.#host.io.failure(this.#handle) : answer;
    this.#host.done(this.#handle, { count: this.#count, digest: this.#hash.digest('hex'), end, stalls: 0 });
  }
}

/** Writes the pattern as fast as it is taken. */
class Source implements Behaviour {
  readonly #host: BehaviourHost;
  readonly #handle: number;
  readonly #size: number;
  readonly #piece: number;
  readonly #last: 'shutdown' | 'close';
  #count = 0;
  #stalls = 0;
  #over = false;

  constructor(host: BehaviourHost, handle: number, size: number, piece: number, last: 'shutdown' | 'close') {
    this.#host = host;
    this.#handle = handle;
    this.#size = size;
    this.#piece = piece;
    this.#last = last;
  }

  begin(): void {
    this.#host.attach(this.#handle, this);
    this.turn();
  }

  event(_handle: number, events: number): void {
    if ((events & (WRITABLE | FAILED)) !== 0) this.turn();
  }

  turn(): void {
    if (this.#over) return;
    for (let calls = 0; calls < BUDGET; calls++) {
      const bytes = pattern(this.#count, Math.min(this.#piece, this.#size - this.#count));
      if (bytes.length === 0) return this.#end(0);
      const count = this.#host.io.write(this.#handle, bytes, 0, bytes.length);
      bytes.fill(SCRIBBLE);
      if (count < 0 && count !== AGAIN) return this.#end(count);
      this.#count += Math.max(count, 0);
      if (count < bytes.length) {
        this.#stalls++;
        return;
      }
    }
    this.#host.later(this);
  }

  progress(): number {
    return this.#count;
  }

  #end(end: number): void {
    this.#over = true;
    this.#host.done(this.#handle, { count: this.#count, digest: '', end, stalls: this.#stalls });
    if (this.#last === 'close') this.#host.close(this.#handle);
    else this.#host.io.shutdown(this.#handle);
  }
}

/** Makes events stale on purpose: closes handles that have events pending, and opens others that reuse the numbers. */
class Replacement implements Behaviour {
  readonly #host: BehaviourHost;
  readonly #group: readonly number[];
  readonly #to: SocketAddress;
  #done = false;

  constructor(host: BehaviourHost, group: readonly number[], to: SocketAddress) {
    this.#host = host;
    this.#group = group;
    this.#to = to;
  }

  event(): void {
    if (this.#done) return;
    this.#done = true;
    for (const handle of this.#group) this.#host.close(handle);
    this.#host.replaced(this.#group.map(() => this.#host.connect(this.#to, undefined)));
  }

  turn(): void {}

  progress(): number {
    return 0;
  }
}

/** Makes events stale on purpose: lends handles that have events pending. Events that still arrive are reported. */
class Lending implements Behaviour {
  readonly #host: BehaviourHost;
  readonly #group: readonly number[];
  #done = false;
  #late = 0;

  constructor(host: BehaviourHost, group: readonly number[]) {
    this.#host = host;
    this.#group = group;
  }

  event(handle: number): void {
    if (this.#done) {
      this.#host.done(handle, { count: ++this.#late, digest: '', end: 0, stalls: 0 });
      return;
    }
    this.#done = true;
    this.#host.replaced(this.#group.map(member => this.#host.io.lend(member)));
  }

  turn(): void {}

  progress(): number {
    return this.#late;
  }
}
