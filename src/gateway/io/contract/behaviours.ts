// What handles do by themselves in the contract suite, inside the reactor's thread. Each follows the port's rules to
// the letter and no further: it reads until AGAIN or a short read, and after that touches the handle only when an
// event has come. An adapter that forgets an event leaves them hanging.

import { createHash } from 'node:crypto';
import { AGAIN, FAILED, HUNG_UP, type SocketAddress, WRITABLE } from '../reactor.ts';
import { type BehaviourName, pattern } from './messages.ts';
import { TunnelStream } from './passage.ts';
import { type Behaviour, BUDGET, type Stage } from './stage.ts';

const SCRIBBLE = 0xee;

export function behave(stage: Stage, handle: number, name: BehaviourName): void {
  switch (name.kind) {
    case 'echo':
      return new TunnelStream(stage, handle, handle).begin();
    case 'sink':
      return new Sink(stage, handle, name.spaces).begin();
    case 'source':
      return new Source(stage, handle, name.size, name.piece, name.last).begin();
    case 'tunnel': {
      const other = stage.connect(name.to, undefined);
      if (other < 0) return stage.reset(handle);
      return new TunnelStream(stage, handle, other).begin();
    }
    case 'replace': {
      const replacement = new Replacement(stage, name.group, name.to);
      for (const member of name.group) stage.attach(member, replacement);
      return;
    }
    case 'lend': {
      const lending = new Lending(stage, name.group);
      for (const member of name.group) stage.attach(member, lending);
      return;
    }
    default:
  }
}

/** Reads everything there is, and tells how it ended. */
class Sink implements Behaviour {
  readonly #stage: Stage;
  readonly #handle: number;
  readonly #spaces: readonly number[];
  readonly #hash = createHash('sha256');
  readonly #buffer: Uint8Array;
  #reads = 0;
  #count = 0;
  #hungUp = false;
  #failed = false;
  #over = false;

  constructor(stage: Stage, handle: number, spaces: readonly number[]) {
    this.#stage = stage;
    this.#handle = handle;
    this.#spaces = spaces;
    this.#buffer = new Uint8Array(Math.max(...spaces));
  }

  begin(): void {
    this.#stage.attach(this.#handle, this);
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
      const count = this.#stage.io.read(this.#handle, this.#buffer, 0, space);
      if (count === AGAIN) return;
      if (count <= 0) return this.#end(count);
      this.#hash.update(this.#buffer.subarray(0, count));
      this.#count += count;
      if (count < space && !this.#hungUp && !this.#failed) return;
    }
    this.#stage.later(this);
  }

  progress(): number {
    return this.#count;
  }

  #end(answer: number): void {
    this.#over = true;
    // Where FAILED has told the error, the reads after it may end with 0.
    const end = answer === 0 && this.#failed ? this.#stage.io.failure(this.#handle) : answer;
    this.#stage.done(this.#handle, { count: this.#count, digest: this.#hash.digest('hex'), end, stalls: 0 });
  }
}

/** Writes the pattern as fast as it is taken. */
class Source implements Behaviour {
  readonly #stage: Stage;
  readonly #handle: number;
  readonly #size: number;
  readonly #piece: number;
  readonly #last: 'shutdown' | 'close';
  #count = 0;
  #stalls = 0;
  #over = false;

  constructor(stage: Stage, handle: number, size: number, piece: number, last: 'shutdown' | 'close') {
    this.#stage = stage;
    this.#handle = handle;
    this.#size = size;
    this.#piece = piece;
    this.#last = last;
  }

  begin(): void {
    this.#stage.attach(this.#handle, this);
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
      const count = this.#stage.io.write(this.#handle, bytes, 0, bytes.length);
      bytes.fill(SCRIBBLE);
      if (count < 0 && count !== AGAIN) return this.#end(count);
      this.#count += Math.max(count, 0);
      if (count < bytes.length) {
        this.#stalls++;
        return;
      }
    }
    this.#stage.later(this);
  }

  progress(): number {
    return this.#count;
  }

  #end(end: number): void {
    this.#over = true;
    this.#stage.done(this.#handle, { count: this.#count, digest: '', end, stalls: this.#stalls });
    if (this.#last === 'close') this.#stage.close(this.#handle);
    else this.#stage.io.shutdown(this.#handle);
  }
}

/** Makes events stale on purpose: closes handles whose events are under way and has their numbers taken anew. */
class Replacement implements Behaviour {
  readonly #stage: Stage;
  readonly #group: readonly number[];
  readonly #to: SocketAddress;
  #done = false;

  constructor(stage: Stage, group: readonly number[], to: SocketAddress) {
    this.#stage = stage;
    this.#group = group;
    this.#to = to;
  }

  event(): void {
    if (this.#done) return;
    this.#done = true;
    for (const handle of this.#group) this.#stage.close(handle);
    this.#stage.replaced(this.#group.map(() => this.#stage.connect(this.#to, undefined)));
  }

  turn(): void {}

  progress(): number {
    return 0;
  }
}

/** Makes events stale on purpose: lends handles whose events are under way. Those that come all the same are told. */
class Lending implements Behaviour {
  readonly #stage: Stage;
  readonly #group: readonly number[];
  #done = false;
  #late = 0;

  constructor(stage: Stage, group: readonly number[]) {
    this.#stage = stage;
    this.#group = group;
  }

  event(handle: number): void {
    if (this.#done) {
      this.#stage.done(handle, { count: ++this.#late, digest: '', end: 0, stalls: 0 });
      return;
    }
    this.#done = true;
    this.#stage.replaced(this.#group.map(member => this.#stage.io.lend(member)));
  }

  turn(): void {}

  progress(): number {
    return this.#late;
  }
}
