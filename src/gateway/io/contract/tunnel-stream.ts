// Passes bytes and FIN between two handles, or from one back to itself: the tunnel and the echo of the contract suite.

import { AGAIN, FAILED, HUNG_UP, READABLE, type Reactor, WRITABLE } from '../reactor.ts';
import { type Behaviour, type BehaviourHost, BUDGET } from './behaviour-host.ts';

const READ_SPACE = 48 * 1024;

export class TunnelStream implements Behaviour {
  readonly #host: BehaviourHost;
  readonly #directions: readonly Direction[];
  #over = false;

  constructor(host: BehaviourHost, one: number, other: number) {
    this.#host = host;
    const there = new Direction(host.io, one, other);
    this.#directions = one === other ? [there] : [there, new Direction(host.io, other, one)];
  }

  begin(): void {
    for (const { source } of this.#directions) this.#host.attach(source, this);
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
    if (again) this.#host.later(this);
  }

  #end(): void {
    this.#over = true;
    const end = this.#directions.find(each => each.failure !== 0)?.failure ?? 0;
    const stalls = this.#directions.reduce((sum, each) => sum + each.stalls, 0);
    const { source, count } = this.#directions[0];
    this.#host.done(source, { count, digest: '', end, stalls });
    for (const each of this.#directions) {
      if (end === 0) this.#host.close(each.source);
      else this.#host.reset(each.source);
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
  /** Whether a read or write can succeed. */
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

  /** True when it stopped to give others a turn. */
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
