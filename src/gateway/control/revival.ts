// Restarts threads that have died: at once the first time, after a growing pause when threads of one kind keep dying. A
// start that fails counts as another death.

import { type BackOff, type Death, DeathLog } from './death-log.ts';

export interface RestartedThread<Kind extends string> {
  readonly name: string;
  readonly kind: Kind;
}

export class Revival<Kind extends string> implements Disposable {
  readonly #onDeath: (thread: string, cause: Error, death: Death) => void;
  readonly #deaths: DeathLog<Kind>;
  readonly #timers = new Set<NodeJS.Timeout>();
  #isOver = false;

  constructor(onDeath: (thread: string, cause: Error, death: Death) => void, backOff?: BackOff) {
    this.#onDeath = onDeath;
    this.#deaths = new DeathLog(backOff);
  }

  /** `revive` starts the thread again, and resolves to the error if that fails. */
  died(thread: RestartedThread<Kind>, cause: Error, revive: () => Promise<Error | undefined>): void {
    if (this.#isOver) return;
    const death = this.#deaths.add(thread.kind, performance.now());
    this.#onDeath(thread.name, cause, death);
    const timer = setTimeout(async () => {
      this.#timers.delete(timer);
      const failure = await revive().catch((error: unknown) => error as Error);
      if (failure !== undefined) this.died(thread, failure, revive);
    }, death.pauseMs);
    this.#timers.add(timer);
  }

  /** A kind of thread that keeps dying, if any. */
  failing(): Kind | undefined {
    return this.#deaths.failing(performance.now());
  }

  /** From now on nothing is restarted. */
  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }
}
