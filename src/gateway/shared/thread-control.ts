// Memory that lets the control thread end a thread at any time: the stop flag, and the descriptors that outlive the
// thread. A worker waits in epoll_wait() without limit, where neither a message nor worker.terminate() reaches it. So
// it publishes its wake-up descriptor before it first waits, and checks the flag before it first waits and after each
// wake-up. Whichever side comes second sees the other.
//
// V8 terminates a thread only where a function or the next round of a loop begins, or just before an Atomics operation
// takes effect. So an assignment right behind a system call or an Atomics operation is one step with it: `held` and the
// flags that say which counts a row holds are right at every moment, if the call comes first and the assignment behind.

/** Descriptors are stored plus one, so that zeroed memory means none. */
const STOP = 0;
const WAKE_FD = 1;
const EPOLL_FD = 2;
const BUSY = 3;
const OVER = 4;
const FIELDS = 5;
const FIELD_BYTES = FIELDS * Int32Array.BYTES_PER_ELEMENT;

/** The longest that awaitLeft() waits: more than anything between enter() and leave() takes, also on a busy machine. */
const BUSY_MS = 1000;

export class ThreadControl {
  /** By descriptor: not 0 while the thread's reactor has it open. The control thread closes those of a dead thread. */
  readonly held: Uint8Array;
  readonly #fields: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.#fields = new Int32Array(memory, 0, FIELDS);
    this.held = new Uint8Array(memory, FIELD_BYTES);
  }

  /** `capacity`: descriptors that a reactor in this thread may hold. */
  static memory(capacity: number): SharedArrayBuffer {
    return new SharedArrayBuffer(FIELD_BYTES + capacity);
  }

  /** Called by the control thread, which must then write to `wakeFd`. */
  stop(): void {
    Atomics.store(this.#fields, STOP, 1);
  }

  get isStopping(): boolean {
    return Atomics.load(this.#fields, STOP) === 1;
  }

  /** Called by the control thread once the thread has ended, before it cleans up. */
  over(): void {
    Atomics.store(this.#fields, OVER, 1);
  }

  /** Nobody takes what is given to the thread from now on. */
  get isOver(): boolean {
    return Atomics.load(this.#fields, OVER) === 1;
  }

  /** Called by the thread, before it first waits. */
  publish(wakeFd: number, epollFd: number): void {
    Atomics.store(this.#fields, EPOLL_FD, epollFd + 1);
    Atomics.store(this.#fields, WAKE_FD, wakeFd + 1);
  }

  /**
   * Called by the thread when it is about to have something that only its own code knows of, or must not be terminated.
   * False if it is being ended: then it must not begin. leave() must follow.
   */
  enter(): boolean {
    Atomics.store(this.#fields, BUSY, 1);
    if (!this.isStopping) return true;
    this.leave();
    return false;
  }

  leave(): void {
    Atomics.store(this.#fields, BUSY, 0);
    if (this.isStopping) Atomics.notify(this.#fields, BUSY);
  }

  /** Called by the control thread after stop(): waits until the thread has left what it entered, if it does so soon. */
  awaitLeft(): void {
    Atomics.wait(this.#fields, BUSY, 1, BUSY_MS);
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
