// All sources of a configuration as one: opens those that are new, closes those that are gone, and joins what they
// observe. A source that has not listed yet contributes the clusters that were saved for it.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { SourceSettings } from '../config/config.ts';
import type { PatchOperation } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { Resource } from '../kube/resources.ts';
import type { Observation, Source } from './source.ts';

export interface SourceState {
  readonly name: string;
  readonly up: boolean;
  readonly synced: boolean;
  readonly error: string | null;
}

export interface Observed {
  readonly claims: readonly Cluster[];
  readonly findings: readonly Finding[];
  readonly sources: readonly ObservedSource[];
}

export interface ObservedSource {
  readonly name: string;
  readonly clusters: readonly Cluster[];
  /** False: they are those of the last run. */
  readonly synced: boolean;
  /** The clusters are all there are: what is missing was deleted. */
  readonly complete: boolean;
}

export interface SourceFix {
  readonly cluster: Cluster;
  readonly resource: Resource<KubeObject>;
  readonly operations: readonly PatchOperation[];
}

export interface SourceSetOptions {
  /** `former`: the clusters of the last run, or of its former settings. */
  readonly open: (settings: SourceSettings, changed: () => void, former: readonly Cluster[]) => Source;
  /** Some source may have changed. */
  readonly changed: () => void;
  /** The clusters of the last run, by source; see sourceKey(). */
  readonly saved?: ReadonlyMap<string, readonly Cluster[]>;
}

const nothing: Observation = { clusters: [], findings: [], synced: false, complete: false };

export class SourceSet implements AsyncDisposable {
  readonly #options: SourceSetOptions;
  readonly #sources = new Map<string, Source>();
  /** Clusters to serve for a source until it has listed: those of the last run, or of its former settings. */
  readonly #until = new Map<string, readonly Cluster[]>();
  #settings: readonly SourceSettings[] = [];
  #variant = '';

  constructor(options: SourceSetOptions) {
    this.#options = options;
    for (const [key, clusters] of options.saved ?? []) this.#until.set(key, clusters);
  }

  /**
   * Opens the sources that are new. Those that are gone close in the background. A source whose settings have changed
   * is opened anew, and its clusters are served until it has listed again. So are all when `variant` has changed, which
   * stands for everything else in the file that sources depend on.
   */
  use(settings: readonly SourceSettings[], variant = ''): void {
    const keys = new Set(variant === this.#variant ? settings.map(sourceKey) : []);
    this.#variant = variant;
    for (const one of settings)
      if (!keys.has(sourceKey(one)) || !this.#sources.has(sourceKey(one)))
        this.#until.set(sourceKey(one), this.#clustersOf(one));
    for (const [key, source] of this.#sources) {
      if (keys.has(key)) continue;
      this.#sources.delete(key);
      void source[Symbol.asyncDispose]();
    }
    for (const one of settings) {
      const key = sourceKey(one);
      if (this.#sources.has(key)) continue;
      this.#sources.set(key, this.#options.open(one, this.#options.changed, this.#until.get(key) ?? []));
    }
    this.#settings = settings;
  }

  /** Only of these settings, which may differ from those in use. */
  observe(settings: readonly SourceSettings[] = this.#settings): Observed {
    const claims: Cluster[] = [];
    const findings: Finding[] = [];
    const sources: ObservedSource[] = [];
    for (const one of settings) {
      const key = sourceKey(one);
      const seen = this.#sources.get(key)?.observe() ?? nothing;
      const clusters = this.#clustersOf(one);
      for (const cluster of clusters) claims.push(cluster);
      findings.push(...seen.findings);
      sources.push({ name: one.name, clusters, synced: seen.synced, complete: seen.complete });
    }
    return { claims, findings, sources };
  }

  /** Its own once it has listed; until then those of the last run, or of its former settings. */
  #clustersOf(settings: SourceSettings): readonly Cluster[] {
    const key = sourceKey(settings);
    const seen = this.#sources.get(key)?.observe();
    if (seen?.synced === true) {
      this.#until.delete(key);
      return seen.clusters;
    }
    const former = this.#settings.find(({ name }) => name === settings.name);
    const isFormer = former !== undefined && sourceKey(former) !== key;
    return this.#until.get(key) ?? (isFormer ? this.#clustersOf(former) : (seen?.clusters ?? []));
  }

  /** What sources with `fix: true` would add to the objects of these clusters. */
  fixes(clusters: readonly Cluster[]): readonly SourceFix[] {
    const byName = new Map([...this.#sources.values()].map(source => [source.name, source]));
    return clusters.flatMap(cluster => {
      const source = byName.get(cluster.origin.source);
      const operations = source?.fixesFor?.(cluster) ?? [];
      const resource = source?.resource;
      return operations.length === 0 || resource === undefined ? [] : [{ cluster, resource, operations }];
    });
  }

  /** The clusters to save, by source. Those of a source that has not listed are kept. */
  toSave(): ReadonlyMap<string, readonly Cluster[]> {
    return new Map(this.#settings.map(one => [sourceKey(one), this.observe([one]).claims] as const));
  }

  get states(): readonly SourceState[] {
    return this.#settings.map(one => {
      const { synced, error } = this.#sources.get(sourceKey(one))?.observe() ?? nothing;
      return { name: one.name, up: error === undefined, synced, error: error ?? null };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#sources.values()].map(source => source[Symbol.asyncDispose]()));
    this.#sources.clear();
  }
}

/** Changes with everything that decides which objects a source sees. */
export function sourceKey({ name, options }: SourceSettings): string {
  return `${name} ${JSON.stringify(options)}`;
}
