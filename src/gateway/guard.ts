// One fault, one connection: every callback into our code (events, timers, signals) goes through guard(), bound to the
// connection it serves. An exception then ends only that connection; uncaught, it would end the thread and every
// connection on it.

export interface FaultOwner {
  /** Our own code threw while serving this owner. Must not throw. */
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
