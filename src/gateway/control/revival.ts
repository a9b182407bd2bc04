// Brings threads back that have died: at once the first time, after a growing pause when threads of one kind keep dying.
// A start that fails is one more death.

import { type BackOff, type Death, DeathLog } from './death-log.ts';

export interface Mortal<Kind extends string> {
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

  /** `revive` starts it again and answers why it could not. */
  died(thread: Mortal<Kind>, cause: Error, revive: () => Promise<Error | undefined>): void {
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

  /** A kind of thread that keeps dying. */
  failing(): Kind | undefined {
    return this.#deaths.failing(performance.now());
  }

  /** Nothing is started any more. */
  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }
}
