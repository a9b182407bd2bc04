// Backends given by name: their addresses, looked up again and again on the control thread, since a worker never
// waits. A name that stops resolving keeps its last addresses.

import { lookup } from 'node:dns/promises';

const EVERY_MS = 10_000;
/** A name whose backend just failed is looked up sooner, but not more often than this. */
const HURRY_MS = 1000;
/** getaddrinfo runs on a pool of four threads that others need too. */
const AT_ONCE = 2;

export type Lookup = (name: string) => Promise<readonly string[]>;

interface Known {
  addresses: readonly string[];
  lookedUpAt: number;
  error: string | undefined;
}

export class NameResolver {
  readonly #lookup: Lookup;
  readonly #onError: (name: string, error: string | undefined) => void;
  readonly #known = new Map<string, Known>();
  readonly #queue = new Set<string>();
  #busy = 0;
  #changed: (names: readonly string[]) => void = () => {};
  #idle: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** `onError` is told once when a name stops resolving, and once (undefined) when it does again. */
  constructor(onError: (name: string, error: string | undefined) => void, lookUp: Lookup = systemLookup) {
    this.#lookup = lookUp;
    this.#onError = onError;
  }

  /** From now on exactly these names. Resolves when new ones are known, or after `patienceMs`. */
  async watch(
    names: ReadonlySet<string>,
    patienceMs: number,
    changed: (names: readonly string[]) => void,
  ): Promise<void> {
    this.#changed = changed;
    for (const name of this.#known.keys()) if (!names.has(name)) this.#known.delete(name);
    const fresh = [...names].filter(name => !this.#known.has(name));
    for (const name of fresh) {
      this.#known.set(name, { addresses: [], lookedUpAt: Number.NEGATIVE_INFINITY, error: undefined });
      this.#queue.add(name);
    }
    this.#schedule();
    if (fresh.length === 0) return;
    const settled = new Promise<void>(resolve => this.#idle.push(resolve));
    this.#work();
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>(resolve => {
      timer = setTimeout(resolve, patienceMs);
    });
    await Promise.race([settled, patience]);
    clearTimeout(timer);
  }

  addresses(name: string): readonly string[] {
    return this.#known.get(name)?.addresses ?? [];
  }

  /** Connections to it fail: perhaps it has moved. */
  hurry(name: string): void {
    const known = this.#known.get(name);
    if (known === undefined || performance.now() - known.lookedUpAt < HURRY_MS) return;
    this.#queue.add(name);
    this.#work();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#known.clear();
    this.#queue.clear();
  }

  #schedule(): void {
    if (this.#known.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    } else {
      this.#timer ??= setInterval(() => {
        for (const name of this.#known.keys()) this.#queue.add(name);
        this.#work();
      }, EVERY_MS);
    }
  }

  #work(): void {
    for (const name of this.#queue) {
      if (this.#busy >= AT_ONCE) return;
      this.#queue.delete(name);
      this.#busy++;
      void this.#resolve(name).finally(() => {
        this.#busy--;
        this.#work();
      });
    }
    if (this.#busy > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  async #resolve(name: string): Promise<void> {
    let addresses: readonly string[] | undefined;
    let error: string | undefined;
    try {
      addresses = await this.#lookup(name);
    } catch (cause) {
      error = cause instanceof Error ? cause.message : String(cause);
    }
    const known = this.#known.get(name);
    if (known === undefined) return;
    known.lookedUpAt = performance.now();
    if (error !== known.error) this.#onError(name, error);
    known.error = error;
    if (addresses === undefined || sameSet(addresses, known.addresses)) return;
    known.addresses = addresses;
    this.#changed([name]);
  }
}

async function systemLookup(name: string): Promise<readonly string[]> {
  const found = await lookup(name, { all: true, order: 'verbatim' });
  return found.map(entry => entry.address);
}

/** Resolvers rotate their answers: another order is no change. */
function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every(entry => b.includes(entry));
}
