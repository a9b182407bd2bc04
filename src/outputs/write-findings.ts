// What a person should know about the objects that we write, in words.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { INSTANCE_LABEL, instanceLabel, MANAGED_BY_LABEL, MANAGER } from '../kube/cluster-label.ts';
import { type KubeFault, wordsOf } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { Resource } from '../kube/resources.ts';
import type { Refusal } from './output.ts';
import { clusterFinding } from './service-rules.ts';

/** Of a webhook's message, for example. */
const MAX_WORDS = 1000;

/** `cluster` is absent for an object that is to be removed. */
export function rejected(cluster: Cluster | undefined, what: string, fault: KubeFault): Finding {
  const words = wordsOf(fault).slice(0, MAX_WORDS);
  const text = `the API server refuses ${what}: ${words}`;
  const fix =
    fault.status === 403
      ? 'Give the service account the permissions that `causeway render rbac` prints'
      : 'Correct what the message names; it is tried again';
  return cluster === undefined
    ? { severity: 'error', code: 'OutputRejected', text, fix }
    : clusterFinding(cluster, 'error', 'OutputRejected', text, fix);
}

export function foreign(
  cluster: Cluster,
  { plural, group }: Resource<KubeObject>,
  { kind, metadata: { namespace, name, labels } }: KubeObject,
  instance: string,
): Finding {
  const other = labels?.[MANAGED_BY_LABEL] === MANAGER ? labels[INSTANCE_LABEL] : undefined;
  const whose =
    other === undefined
      ? `it lacks the labels ${MANAGED_BY_LABEL}=${MANAGER} and ${INSTANCE_LABEL}=${instanceLabel(instance)}`
      : `it belongs to instance '${other}', and this is '${instanceLabel(instance)}'`;
  const text = `${kind} '${namespace}/${name}' is not ours and is left alone: ${whose}`;
  const resource = group === '' ? plural : `${plural}.${group}`;
  const fix = `Delete it if nobody needs it: kubectl delete ${resource} --namespace ${namespace} ${name}`;
  return clusterFinding(cluster, 'error', 'ForeignObject', text, fix);
}

export function undone(cluster: Cluster, what: string): Finding {
  const text = `something keeps changing or deleting ${what}, which is written again each time, at most every half a minute`;
  const fix = 'Stop the other writer; kubectl get -o yaml --show-managed-fields names it';
  return clusterFinding(cluster, 'warning', 'ForeignWriter', text, fix);
}

/** The API server has it, and the controller that it is for does not want it. */
export function notServed(cluster: Cluster, what: string, { text, fix }: Refusal): Finding {
  return clusterFinding(cluster, 'error', 'OutputRejected', `${what}: ${text}`, fix);
}

export function wantedTwice(cluster: Cluster, what: string, first: Cluster): Finding {
  const text = `${what} is already written for cluster '${first.name}'`;
  return clusterFinding(cluster, 'error', 'OutputRejected', text, 'Rename the cluster');
}

export function definitionMissing(resource: Resource<KubeObject>, count: number, error: string): Finding {
  const { plural, group } = resource;
  const objects = count === 1 ? 'an object' : `${count} objects`;
  return {
    severity: 'error',
    code: 'OutputCrdMissing',
    text: `${objects} of '${plural}.${group}' cannot be written: ${error}`,
    fix: `Install the CustomResourceDefinition ${plural}.${group}; it is waited for`,
  };
}

export function sourceEmpty(source: string, count: number): Finding {
  const objects = count === 1 ? 'an object exists' : `${count} objects exist`;
  return {
    severity: 'warning',
    code: 'SourceEmpty',
    text: `source '${source}' has listed no clusters since the start, but ${objects} that were written for its clusters; they are removed if that stays so for 5 minutes`,
    fix: `Check namespaces, selector, kubeconfig and permissions of source '${source}'; to keep the objects, stop Causeway`,
  };
}
