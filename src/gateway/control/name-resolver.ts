// Resolves backends given by name, periodically, on the control thread, because a worker never waits. A name that stops
// resolving keeps its last addresses. New names, and those whose backend just failed, are looked up before the refresh
// of all others; changes are reported in batches.

import { lookup } from 'node:dns/promises';

const EVERY_MS = 10_000;
/** A name whose backend just failed is looked up sooner, but not more often than this. */
const HURRY_MS = 1000;
/** getaddrinfo runs on a pool of four threads that others need too; libuv itself lets it use only two. */
const AT_ONCE = 2;
/** After this time a lookup counts as failed, and the next one may begin. A late answer is still used. */
const LOOKUP_MS = 5000;
/** Changes within this time are reported together: each report goes to every thread. */
const BATCH_MS = 20;

export type Lookup = (name: string) => Promise<readonly string[]>;

interface Known {
  addresses: readonly string[];
  lookedUpAt: number;
  error: string | undefined;
  /** Resolves after the first lookup, successful or not. */
  readonly first: PromiseWithResolvers<void>;
}

export class NameResolver {
  readonly #lookup: Lookup;
  readonly #onError: (name: string, error: string | undefined) => void;
  readonly #known = new Map<string, Known>();
  /** Names to look up, those in `#first` before the others; then the lookups in progress. */
  readonly #first = new Set<string>();
  readonly #queue = new Set<string>();
  readonly #inProgress = new Set<string>();
  #busy = 0;
  #changed: (names: readonly string[]) => void = () => {};
  readonly #unreported = new Set<string>();
  #report: NodeJS.Timeout | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `onError` is called once when a name stops resolving, and once, with undefined, when it resolves again. */
  constructor(onError: (name: string, error: string | undefined) => void, lookUp: Lookup = systemLookup) {
    this.#lookup = lookUp;
    this.#onError = onError;
  }

  /** Watches exactly these names from now on. Resolves when new names have been looked up, or after `waitMs`. */
  async watch(
    names: ReadonlySet<string>,
    waitMs: number,
    changed: (names: readonly string[]) => void,
  ): Promise<void> {
    this.#changed = changed;
    for (const name of this.#known.keys()) if (!names.has(name)) this.#forget(name);
    const fresh: Promise<void>[] = [];
    for (const name of names) {
      if (this.#known.has(name)) continue;
      const first = Promise.withResolvers<void>();
      const known = { addresses: [], lookedUpAt: Number.NEGATIVE_INFINITY, error: undefined, first };
      this.#known.set(name, known);
      this.#first.add(name);
      fresh.push(first.promise);
    }
    this.#schedule();
    if (fresh.length === 0) return;
    this.#work();
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>(resolve => {
      timer = setTimeout(resolve, waitMs);
    });
    await Promise.race([Promise.all(fresh), timeout]);
    clearTimeout(timer);
  }

  addresses(name: string): readonly string[] {
    return this.#known.get(name)?.addresses ?? [];
  }

  /** Whether the name has not been looked up yet: it may turn out to have addresses, or none. */
  isPending(name: string): boolean {
    return this.#known.get(name)?.lookedUpAt === Number.NEGATIVE_INFINITY;
  }

  /** Looks the name up soon: connections to it fail, so its addresses may have changed. */
  hurry(name: string): void {
    const known = this.#known.get(name);
    if (known === undefined || performance.now() - known.lookedUpAt < HURRY_MS) return;
    this.#first.add(name);
    this.#work();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    clearTimeout(this.#report);
    for (const name of this.#known.keys()) this.#forget(name);
  }

  #forget(name: string): void {
    this.#known.get(name)?.first.resolve();
    for (const names of [this.#known, this.#first, this.#queue, this.#unreported]) names.delete(name);
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
    for (const names of [this.#first, this.#queue]) {
      for (const name of names) {
        if (this.#busy >= AT_ONCE) return;
        names.delete(name);
        if (!this.#inProgress.has(name)) void this.#resolve(name);
      }
    }
  }

  /** The answer or the deadline lets another name begin; another lookup of this name waits for the answer. */
  async #resolve(name: string): Promise<void> {
    this.#busy++;
    this.#inProgress.add(name);
    let isReleased = false;
    const release = () => {
      if (isReleased) return;
      isReleased = true;
      this.#busy--;
      this.#work();
    };
    const deadline = setTimeout(() => {
      this.#take(name, new Error(`the resolver has not answered for ${LOOKUP_MS / 1000} s`));
      release();
    }, LOOKUP_MS);
    const answer = await this.#lookup(name).catch((error: unknown) => error as Error);
    clearTimeout(deadline);
    this.#inProgress.delete(name);
    this.#take(name, answer);
    release();
  }

  #take(name: string, answer: readonly string[] | Error): void {
    const known = this.#known.get(name);
    if (known === undefined) return;
    const isFirst = known.lookedUpAt === Number.NEGATIVE_INFINITY;
    known.lookedUpAt = performance.now();
    const error = answer instanceof Error ? answer.message : undefined;
    if (error !== known.error) this.#onError(name, error);
    known.error = error;
    const addresses = answer instanceof Error ? known.addresses : answer;
    // The first answer is always reported, even without addresses.
    if (isFirst || !sameSet(addresses, known.addresses)) {
      known.addresses = addresses;
      this.#unreported.add(name);
      this.#report ??= setTimeout(() => this.#reportChanges(), BATCH_MS);
    }
    known.first.resolve();
  }

  #reportChanges(): void {
    this.#report = undefined;
    const names = [...this.#unreported];
    this.#unreported.clear();
    if (names.length > 0) this.#changed(names);
  }
}

async function systemLookup(name: string): Promise<readonly string[]> {
  const found = await lookup(name, { all: true, order: 'verbatim' });
  return found.map(entry => entry.address);
}

/** Resolvers rotate their answers: another order is not a change. */
function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every(entry => b.includes(entry));
}
