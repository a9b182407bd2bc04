// One fault, one connection: whatever calls back into our code (events, timers, signals) does it through guard(), bound to
// the connection that it is about. What throws there ends that connection and nothing else: an exception that nobody
// catches would end the thread with all that it serves.

export interface FaultOwner {
  /** Our own code threw on its behalf. Must not throw. */
  onFault(error: unknown): void;
}

export function guard<Args extends unknown[]>(
  owner: FaultOwner,
  callback: (...args: Args) => unknown,
): (...args: Args) => void {
  return (...args) => {
    try {
      callback(...args);
    } catch (error) {
      owner.onFault(error);
    }
  };
}
