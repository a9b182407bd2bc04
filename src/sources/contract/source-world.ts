// What the contract of sources needs from a place that a source reads, and the source under test with every call of
// `changed` checked.

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Cluster } from '../../cluster/cluster.ts';
import type { KubeFault } from '../../kube/kube-api.ts';
import type { Observation, Source } from '../source.ts';

/** Keys are DNS labels that the suite chooses. */
export interface SourceWorld {
  /** At most once per world. */
  open(changed: () => void): Source;
  /** Lets everything happen that is under way, or due within this time. */
  advance(ms: number): Promise<void>;
  /** Creates an object, or a file, that gives one cluster. Returns the cluster's name. */
  create(key: string): Promise<string>;
  /** Changes it in a way that its cluster shows. */
  change(key: string): Promise<void>;
  /** Changes it in a way that no cluster shows. */
  touch(key: string): Promise<void>;
  remove(key: string): Promise<void>;
  /** Creates objects with everything wrong that the place accepts. They must lead to findings. */
  createBroken(): Promise<void>;
  /** Absent for sources that read no server. */
  readonly server?: SourceServer;
}

export interface SourceServer {
  /** From now on this is the answer to everything that the source asks; undefined: it works again. */
  fail(fault: KubeFault | undefined): void;
  /** Ends all watches; it works otherwise. */
  cutWatches(): void;
  /** Older versions can no longer be watched. */
  forget(): void;
  /** The CustomResourceDefinition of its objects; absent for built-in resources. */
  readonly definition?: {
    create(): Promise<void>;
    /** With its objects. */
    remove(): Promise<void>;
  };
}

export type StartWorld = (t: TestContext) => SourceWorld | Promise<SourceWorld>;

/** Far more than any source waits, where nothing keeps it from going on. */
const TURNS = 200;
const TURN_MS = 1000;

/** A source under test: checks on every call what must always be true. */
export class SourceUnderTest implements AsyncDisposable {
  readonly #world: SourceWorld;
  readonly #source: Source;
  /** In which call the source is. */
  #inside: string | undefined;
  #isDisposed = false;
  readonly #offences: string[] = [];
  changes = 0;

  constructor(world: SourceWorld) {
    this.#world = world;
    this.#source = this.#within('open', () => world.open(() => this.#changed()));
  }

  get name(): string {
    return this.#source.name;
  }

  observe(): Observation {
    const [first, second] = this.#within('observe()', () => [this.#source.observe(), this.#source.observe()]);
    assertSameClusters(second.clusters, first.clusters);
    for (const { origin } of first.clusters) assert.equal(origin.source, this.name);
    if (!first.complete && first.synced) assert.ok(first.error, 'an incomplete observation says why');
    if (first.complete) assert.deepEqual([first.synced, first.error], [true, undefined]);
    return first;
  }

  /** Sorted. */
  clusterNames(): string[] {
    return this.observe()
      .clusters.map(({ name }) => name)
      .toSorted();
  }

  /** Lets time pass until this is true. */
  async until(what: string, condition: (observation: Observation) => boolean): Promise<Observation> {
    for (let turn = 0; turn < TURNS; turn++) {
      const observation = this.observe();
      if (condition(observation)) return observation;
      await this.#world.advance(TURN_MS);
    }
    throw new assert.AssertionError({ message: `never ${what}`, actual: this.observe() });
  }

  untilNames(...names: readonly string[]): Promise<Observation> {
    const wanted = names.toSorted().join();
    return this.until(`has the clusters '${wanted}'`, ({ clusters }) => {
      const found = clusters.map(({ name }) => name).toSorted();
      return found.join() === wanted;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    await this.#source[Symbol.asyncDispose]();
    assert.deepEqual(this.#offences, []);
  }

  #changed(): void {
    this.changes++;
    if (this.#inside !== undefined) this.#offences.push(`changed() was called from within ${this.#inside}`);
    if (this.#isDisposed) this.#offences.push('changed() was called after disposal');
  }

  #within<T>(what: string, act: () => T): T {
    this.#inside = what;
    try {
      return act();
    } finally {
      this.#inside = undefined;
    }
  }
}

/** The same references, in any order. */
export function assertSameClusters(actual: readonly Cluster[], expected: readonly Cluster[]): void {
  const known = new Set(expected);
  assert.deepEqual(
    actual.filter(cluster => !known.has(cluster)).map(({ name }) => name),
    [],
    'clusters that are other objects than before',
  );
  assert.equal(actual.length, expected.length);
}
