// For threads of a test that must run at the same time.

/** Returns once `threads` threads have called it; `ready` is one shared Int32, zero at first. */
export function waitForAll(ready: Int32Array, threads: number): void {
  let here = Atomics.add(ready, 0, 1) + 1;
  Atomics.notify(ready, 0);
  while (here < threads) {
    Atomics.wait(ready, 0, here);
    here = Atomics.load(ready, 0);
  }
}
