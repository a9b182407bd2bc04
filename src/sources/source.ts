// The port through which clusters come in. A source lists everything it knows and reports when that may have changed. It
// never fails: errors are part of what it observes, and its last good clusters stay.
//
// A new source is a file in this folder with an `OpenSource`, and a line in open-source.ts. `sourceContract()` is the
// suite that all sources pass.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Clock } from '../kube/clock.ts';
import type { KubeAccess } from '../kube/kube-access.ts';
import type { KubeApi, PatchOperation } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { KubeServer } from '../kube/kube-servers.ts';
import type { Resource } from '../kube/resources.ts';

export interface Source extends AsyncDisposable {
  /** `origin.source` of its clusters, and its name in the API, in metrics and in the log. */
  readonly name: string;
  /**
   * All that it knows now, without waiting. A cluster that has not changed is the same object as before, so that callers
   * can compare references.
   */
  observe(): Observation;
  /**
   * `fix: true`: what to add to the object of this cluster, as the plan has settled it, and where the object is. Absent
   * for sources that never change objects.
   */
  readonly resource?: Resource<KubeObject>;
  fixesFor?(cluster: Cluster): readonly PatchOperation[];
}

export interface Observation {
  readonly clusters: readonly Cluster[];
  readonly findings: readonly Finding[];
  /** It has listed everything once. An absent CustomResourceDefinition counts as listed. */
  readonly synced: boolean;
  /**
   * The clusters are all there are: what is missing was deleted. False while a list is suspiciously empty, the
   * CustomResourceDefinition is absent or the server cannot be read; then nothing may be deleted because it is missing.
   */
  readonly complete: boolean;
  /** Why it is not up to date: a sentence. */
  readonly error?: string;
}

export interface SourceContext {
  /** `kamaji`, `kamaji-2`. */
  readonly name: string;
  /** Relative file names start here: the folder of causeway.yaml. */
  readonly folder: string;
  /** The client for that API server; the same one for the same kubeconfig and context. */
  readonly kubeApi: (server: KubeServer) => KubeApi;
  readonly clock?: Clock;
  /** An output writes the endpoints of tenants, so their API servers must run with `--endpoint-reconciler-type=none`. */
  readonly wantsReconcilerNone?: boolean;
  /** An output needs the addresses of clusters' nodes: `controlPlane.nodes`. */
  readonly wantsNodes?: boolean;
  /** Its clusters of the last run, or of its former settings. */
  readonly former?: readonly Cluster[];
  /** Opens a client for the API server of a tenant. Default: over HTTPS. */
  readonly openClient?: (access: KubeAccess) => KubeApi & Disposable;
}

/**
 * Returns at once, before anything is read. `changed` is called after each change, and never from within this call or
 * observe(); after disposal it is not called.
 */
export type OpenSource<Options> = (options: Options, context: SourceContext, changed: () => void) => Source;
