// The port through which the plan leaves as objects in Kubernetes. An output only says which objects there should be; it
// is pure. Comparing, applying, pruning and everything that protects the objects of others is in one place
// (write-objects.ts).
//
// A new output is a file in this folder with a `NewOutput`, and a line in new-output.ts. `outputContract()` is the suite
// that all outputs pass.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { Resource } from '../kube/resources.ts';
import type { Plan } from '../plan/plan.ts';

export interface Output {
  /** `ingress`, `ingress-2`. */
  readonly name: string;
  /** Everything it may write: listed, watched and pruned. */
  readonly resources: readonly OutputResource[];
  /** Never throws: a cluster that it cannot express gets a finding and no object. */
  desired(plan: Plan): Desired;
}

export interface OutputResource extends Resource<KubeObject> {
  /** Why the controller that reads an object does not serve it, from its status. Pure, and never throws. */
  readonly refusalOf?: (object: KubeObject) => Refusal | undefined;
}

export interface Refusal {
  /** A sentence that may follow the name of the object and a colon. */
  readonly text: string;
  readonly fix: string;
  /** In ms since 1970: it counts from then on. Absent: at once. */
  readonly from?: number;
}

export interface Desired {
  readonly objects: readonly DesiredObject[];
  readonly findings: readonly Finding[];
}

export interface DesiredObject {
  /** One of the output's. */
  readonly resource: Resource<KubeObject>;
  readonly cluster: Cluster;
  /**
   * With its name and namespace. Labels, annotations and the owner reference that all our objects have are added by the
   * writer.
   */
  readonly object: KubeObject;
  /** What it should have is not known now: it stays as it is, if it is there. */
  readonly asItIs?: boolean;
}

export interface OutputContext {
  /** For objects of clusters that are in no namespace. */
  readonly leaseNamespace: string;
}

export type NewOutput<Options> = (name: string, options: Options, context?: OutputContext) => Output;
