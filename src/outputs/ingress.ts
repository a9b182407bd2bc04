// Ingress objects, for controllers that pass TLS through by SNI when an annotation says so. One Ingress for each cluster
// and namespace, with a rule for each host.
//
// Cleartext HTTP (apps-http) is left out: the annotations that pass TLS through hold for a whole Ingress, and a
// controller answers HTTP for its hosts by itself.

import type { Cluster } from '../cluster/cluster.ts';
import type { IngressOptions } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf, type Resource, resource } from '../kube/resources.ts';
import { chooseIngress, controllerTypes, type IngressChoice } from './ingress-flavor.ts';
import { DEFAULT_ENTRY_POINTS, desiredIngressRouteTcps, ingressRouteTcps } from './ingress-route-tcp.ts';
import { objectName } from './object-name.ts';
import type { Desired, NewOutput } from './output.ts';
import { perCluster } from './per-cluster.ts';
import { clusterFinding, type ServiceRule, serviceRules } from './service-rules.ts';

export const ingresses: Resource<KubeObject> = resource('networking.k8s.io/v1', 'ingresses', 'Ingress');

/** Traefik has no class in its objects; it reads the annotation that Ingress had before its field. */
const CLASS_ANNOTATION = 'kubernetes.io/ingress.class';

export const newIngress: NewOutput<IngressOptions> = (name, options) => ({
  name,
  resources: options.flavor === 'fromCluster' ? [ingresses, ingressRouteTcps] : [ingresses],
  desired: perCluster(cluster => desiredFor(name, cluster, chooseIngress(options, cluster))),
});

function desiredFor(output: string, cluster: Cluster, choice: IngressChoice): Desired {
  switch (choice.kind) {
    case 'ingress':
      return desiredIngresses(output, cluster, choice);
    case 'traefik': {
      const { className, annotations: given } = choice;
      const annotations = { ...(className !== undefined && { [CLASS_ANNOTATION]: className }), ...given };
      return desiredIngressRouteTcps(output, cluster, { entryPoints: DEFAULT_ENTRY_POINTS, annotations });
    }
    case 'unknown': {
      const found = String(choice.controllerType).slice(0, 64);
      const text = `output '${output}' has no object for controllerType '${found}'`;
      const fix = `Set spec.controlPlane.ingress.controllerType to one of ${controllerTypes.join(', ')}`;
      return { objects: [], findings: [clusterFinding(cluster, 'error', 'OutputRejected', text, fix)] };
    }
  }
}

function desiredIngresses(
  output: string,
  cluster: Cluster,
  { flavor, className, annotations }: Extract<IngressChoice, { kind: 'ingress' }>,
): Desired {
  const refusal = (host: string) =>
    // RFC 1123 names, as the API server wants them.
    host.includes('_') ? "an Ingress allows no '_' in hosts" : flavor.refusal?.(host);
  const { byNamespace, findings } = serviceRules(output, cluster, refusal);
  const name = objectName(output, cluster.name);
  const objects = [...byNamespace].map(([namespace, rules]) => ({
    resource: ingresses,
    cluster,
    object: {
      apiVersion: apiVersionOf(ingresses),
      kind: ingresses.kind,
      metadata: { name, namespace, annotations: { ...flavor.annotations, ...annotations } },
      spec: {
        ...(className !== undefined && { ingressClassName: className }),
        rules: rules.map(ruleOf),
      },
    },
  }));
  return { objects, findings };
}

function ruleOf({ host, service: { name, port } }: ServiceRule): object {
  const backend = { service: { name, port: { number: port } } };
  return { host, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } };
}
