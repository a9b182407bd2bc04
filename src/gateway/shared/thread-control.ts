// What the control thread and one thread of ours share besides messages, so that the thread can always be ended: the
// order to stop, and the descriptors that outlive the thread. A worker waits in epoll_wait() without limit, where
// neither a message nor worker.terminate() reaches it, so it publishes the descriptor that wakes it up before it first
// waits, and looks for the order before it first waits and after each wake-up. Whichever side comes second sees the other.

/** Descriptors are stored plus one: zeroed memory is "none". */
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

  /** By the control thread; a write to `wakeFd` has to follow. */
  stop(): void {
    Atomics.store(this.#fields, STOP, 1);
  }

  get isStopping(): boolean {
    return Atomics.load(this.#fields, STOP) === 1;
  }

  /** By the thread, before it first waits. */
  publish(wakeFd: number, epollFd: number): void {
    Atomics.store(this.#fields, EPOLL_FD, epollFd + 1);
    Atomics.store(this.#fields, WAKE_FD, wakeFd + 1);
  }

  /** By the thread, before it closes its connections itself: the control thread must not close them again. */
  release(): void {
    Atomics.store(this.#fields, RELEASED, 1);
  }

  /** Whether connections are descriptors that the dead thread has left open. */
  get leavesDescriptors(): boolean {
    return this.wakeFd !== undefined && Atomics.load(this.#fields, RELEASED) === 0;
  }

  /** Write eight bytes to it to wake the thread. Undefined for a thread that needs no waking, or does not wait yet. */
  get wakeFd(): number | undefined {
    return this.#descriptor(WAKE_FD);
  }

  /** Open for as long as the thread lives, and to be closed by the control thread after that. */
  get descriptors(): number[] {
    return [this.wakeFd, this.#descriptor(EPOLL_FD)].filter(fd => fd !== undefined);
  }

  #descriptor(field: number): number | undefined {
    const stored = Atomics.load(this.#fields, field);
    return stored === 0 ? undefined : stored - 1;
  }
}
