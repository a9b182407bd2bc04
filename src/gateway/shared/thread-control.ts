// Memory that lets the control thread end a thread at any time: the stop flag, and the descriptors that outlive the
// thread. A worker waits in epoll_wait() without limit, where neither a message nor worker.terminate() reaches it. So
// it publishes its wake-up descriptor before it first waits, and checks the flag before it first waits and after each
// wake-up. Whichever side comes second sees the other.

/** Descriptors are stored plus one, so that zeroed memory means none. */
const STOP = 0;
const WAKE_FD = 1;
const EPOLL_FD = 2;
const RELEASED = 3;
const FIELDS = 4;

export class ThreadControl {
  readonly #fields: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.#fields = new Int32Array(memory);
  }

  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer(FIELDS * Int32Array.BYTES_PER_ELEMENT);
  }

  /** Called by the control thread, which must then write to `wakeFd`. */
  stop(): void {
    Atomics.store(this.#fields, STOP, 1);
  }

  get isStopping(): boolean {
    return Atomics.load(this.#fields, STOP) === 1;
  }

  /** Called by the thread, before it first waits. */
  publish(wakeFd: number, epollFd: number): void {
    Atomics.store(this.#fields, EPOLL_FD, epollFd + 1);
    Atomics.store(this.#fields, WAKE_FD, wakeFd + 1);
  }

  /** Called by the thread, before it closes its connections: the control thread must not close them again. */
  release(): void {
    Atomics.store(this.#fields, RELEASED, 1);
  }

  /** Whether the dead thread has left its connections' descriptors open. */
  get leavesDescriptors(): boolean {
    return this.wakeFd !== undefined && Atomics.load(this.#fields, RELEASED) === 0;
  }

  /** Write eight bytes to it to wake the thread. Undefined for a thread that needs no wake-up or does not wait yet. */
  get wakeFd(): number | undefined {
    return this.#descriptor(WAKE_FD);
  }

  /** Open as long as the thread lives; the control thread closes them afterwards. */
  get descriptors(): number[] {
    return [this.wakeFd, this.#descriptor(EPOLL_FD)].filter(fd => fd !== undefined);
  }

  #descriptor(field: number): number | undefined {
    const stored = Atomics.load(this.#fields, field);
    return stored === 0 ? undefined : stored - 1;
  }
}
