// CustomResourceDefinitions for the API server in memory, which knows a resource only through one.

import type { KubeObject } from './kube-object.ts';
import type { Resource } from './resources.ts';

/** Serves these versions; its own if none is given. */
export function definitionOf(
  { group, version, plural, kind }: Resource<KubeObject>,
  versions: readonly string[] = [version],
): KubeObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, kind },
      versions: versions.map(name => ({ name, served: true, subresources: { status: {} } })),
    },
  } as KubeObject;
}
