// The contract itself, against the smallest source of a custom resource.

import type { Cluster } from '../cluster/cluster.ts';
import { sampleCluster } from '../cluster/clusters.samples.ts';
import type { Finding } from '../cluster/finding.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { openReflector } from '../kube/reflector.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { kubeWorld } from './contract/kube-world.ts';
import { sourceContract } from './source.contract.ts';
import type { OpenSource } from './source.ts';
import { watchState } from './watch-state.ts';

interface Widget extends KubeObject {
  readonly spec: { readonly id: string };
}

const widgets: Resource<Widget> = resource('test.causeway.dev/v1', 'widgets', 'Widget');
const DEFINITION = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.test.causeway.dev' },
  spec: {
    group: widgets.group,
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [{ name: 'v1', served: true }],
  },
};

function widget(name: string, id: string): Widget {
  return {
    apiVersion: 'test.causeway.dev/v1',
    kind: 'Widget',
    metadata: { name, namespace: 'a' },
    spec: { id },
  };
}

const openWidgets: OpenSource<object> = (_, { name, kubeApi, clock }, changed) => {
  const keep = ({ metadata, spec: { id } }: Widget) =>
    sampleCluster(metadata.name, { id, origin: { source: name } });
  const reflector = openReflector(kubeApi({}), widgets, { keep, ...(clock && { clock }) }, () => {
    isStale = true;
    changed();
  });
  const read = () => {
    const state = watchState(name, [{ what: 'Widgets', reflector }]);
    const all = [...reflector.objects.values()];
    const bad: Finding[] = all
      .filter(({ id }) => id === '')
      .map(({ name: cluster }) => ({
        cluster,
        severity: 'error',
        code: 'AnnotationInvalid',
        text: '',
        fix: '',
      }));
    return { ...state, clusters: all.map(same), findings: [...state.findings, ...bad] };
  };
  const known = new Map<string, Cluster>();
  /** Labels are no part of a cluster. */
  const same = (cluster: Cluster) => {
    const before = known.get(cluster.name);
    if (before !== undefined && before.id === cluster.id) return before;
    known.set(cluster.name, cluster);
    return cluster;
  };
  let isStale = false;
  let last = read();
  return {
    name,
    observe() {
      if (isStale) last = read();
      isStale = false;
      return last;
    },
    [Symbol.asyncDispose]: () => reflector[Symbol.asyncDispose](),
  };
};

sourceContract('A source of a custom resource', () =>
  kubeWorld({
    open: openWidgets,
    options: {},
    resource: widgets,
    definition: DEFINITION,
    clusterName: key => key,
    object: key => widget(key, key),
    beside: () => [],
    change: { spec: { id: 'changed' } },
    broken: [widget('broken', '')],
  }),
);
