// What handles do by themselves in the contract suite, inside the reactor's thread. Each follows the port's rules to
// the letter and no further: it reads until AGAIN or a short read, and after that touches the handle only when an
// event has come. An adapter that forgets an event leaves them hanging.

import { createHash } from 'node:crypto';
import { AGAIN, FAILED, HUNG_UP, READABLE, type Reactor, type SocketAddress, WRITABLE } from '../reactor.ts';
import { type BehaviourName, type Outcome, pattern } from './messages.ts';

/** Calls in one go before others get their turn. */
const BUDGET = 8;
const READ_SPACE = 48 * 1024;
const SCRIBBLE = 0xee;

export interface Behaviour {
  event(handle: number, events: number): void;
  /** After later(). */
  turn(): void;
  /** Bytes read or written so far. */
  progress(): number;
}

/** What a behaviour may do. */
export interface Stage {
  readonly io: Reactor;
  connect(address: SocketAddress, serve: BehaviourName | undefined): number;
  attach(handle: number, behaviour: Behaviour): void;
  close(handle: number): void;
  reset(handle: number): void;
  later(behaviour: Behaviour): void;
  done(handle: number, outcome: Outcome): void;
  replaced(handles: readonly number[]): void;
}

export function behave(stage: Stage, handle: number, name: BehaviourName): void {
  switch (name.kind) {
    case 'echo':
      return new Passage(stage, handle, handle).begin();
    case 'sink':
      return new Sink(stage, handle, name.spaces).begin();
    case 'source':
      return new Source(stage, handle, name.size, name.piece, name.last).begin();
    case 'tunnel': {
      const other = stage.connect(name.to, undefined);
      if (other < 0) return stage.reset(handle);
      return new Passage(stage, handle, other).begin();
    }
    case 'replace': {
      const replacement = new Replacement(stage, name.group, name.to);
      for (const member of name.group) stage.attach(member, replacement);
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

/** Passes bytes and FIN on between two handles, or from one back to itself. */
class Passage implements Behaviour {
  readonly #stage: Stage;
  readonly #directions: readonly Direction[];
  #over = false;

  constructor(stage: Stage, one: number, other: number) {
    this.#stage = stage;
    const there = new Direction(stage.io, one, other);
    this.#directions = one === other ? [there] : [there, new Direction(stage.io, other, one)];
  }

  begin(): void {
    for (const { source } of this.#directions) this.#stage.attach(source, this);
    for (const direction of this.#directions) this.#move(direction);
  }

  event(handle: number, events: number): void {
    for (const direction of this.#directions) {
      if (direction.source === handle && (events & (READABLE | HUNG_UP | FAILED)) !== 0)
        direction.readable = true;
      if (direction.source === handle && (events & (HUNG_UP | FAILED)) !== 0) direction.toTheEnd = true;
      if (direction.target === handle && (events & (WRITABLE | FAILED)) !== 0) direction.writable = true;
      this.#move(direction);
    }
  }

  turn(): void {
    for (const direction of this.#directions) this.#move(direction);
  }

  progress(): number {
    return this.#directions[0].count;
  }

  #move(direction: Direction): void {
    if (this.#over) return;
    const again = direction.move();
    if (direction.failure !== 0 || this.#directions.every(each => each.shut)) return this.#end();
    if (again) this.#stage.later(this);
  }

  #end(): void {
    this.#over = true;
    const end = this.#directions.find(each => each.failure !== 0)?.failure ?? 0;
    const stalls = this.#directions.reduce((sum, each) => sum + each.stalls, 0);
    const { source, count } = this.#directions[0];
    this.#stage.done(source, { count, digest: '', end, stalls });
    for (const each of this.#directions) {
      if (end === 0) this.#stage.close(each.source);
      else this.#stage.reset(each.source);
    }
  }
}

class Direction {
  readonly source: number;
  readonly target: number;
  readonly #io: Reactor;
  readonly #buffer = new Uint8Array(READ_SPACE);
  #from = 0;
  #to = 0;
  /** Whether calling read or write has any prospect. */
  readable = true;
  writable = true;
  toTheEnd = false;
  ended = false;
  shut = false;
  failure = 0;
  count = 0;
  stalls = 0;

  constructor(io: Reactor, source: number, target: number) {
    this.#io = io;
    this.source = source;
    this.target = target;
  }

  /** True when it stopped for the others' sake. */
  move(): boolean {
    for (let calls = 0; calls < BUDGET; calls++) {
      if (this.failure !== 0 || this.shut) return false;
      if (this.#from < this.#to) {
        if (!this.writable) return false;
        this.#write();
      } else if (this.ended) {
        this.shut = true;
        this.#io.shutdown(this.target);
      } else {
        if (!this.readable) return false;
        this.#read();
      }
    }
    return true;
  }

  #read(): void {
    const count = this.#io.read(this.source, this.#buffer, 0, READ_SPACE);
    if (count === AGAIN) {
      this.readable = false;
    } else if (count < 0) {
      this.failure = count;
    } else {
      this.ended = count === 0;
      this.#from = 0;
      this.#to = count;
      this.count += count;
      if (count < READ_SPACE && !this.toTheEnd) this.readable = false;
    }
  }

  #write(): void {
    const count = this.#io.write(this.target, this.#buffer, this.#from, this.#to);
    if (count < 0 && count !== AGAIN) {
      this.failure = count;
      return;
    }
    this.#from += Math.max(count, 0);
    if (this.#from === this.#to) return;
    this.writable = false;
    this.stalls++;
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
