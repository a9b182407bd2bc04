// TLSRoutes of the Gateway API, for a Gateway whose listener passes TLS through (`tls.mode: Passthrough`).
//
// A TLSRoute has one rule for all its hosts, so that each route of a cluster is an object of its own.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { isWildcard } from '../cluster/hostname.ts';
import type { OutputOptions } from '../config/config.ts';
import { apiVersionOf, resource } from '../kube/resources.ts';
import { objectName } from './object-name.ts';
import type { Desired, DesiredObject, NewOutput, OutputResource } from './output.ts';
import { perCluster } from './per-cluster.ts';
import { routeRefusal } from './route-refusal.ts';
import { clusterFinding, nameHosts, type ServiceRule, serviceRules } from './service-rules.ts';

export const tlsRoutes: OutputResource = {
  ...resource('gateway.networking.k8s.io/v1', 'tlsroutes', 'TLSRoute'),
  // v1 is that of Gateway API 1.5; what we write has the same form in all of them.
  versions: ['v1', 'v1alpha3', 'v1alpha2'],
  refusalOf: routeRefusal,
};

type TlsRouteOptions = OutputOptions['tlsRoute'];

/** As many as the older versions allow. */
const MAX_HOSTNAMES = 16;

export const newTlsRoute: NewOutput<TlsRouteOptions> = (name, options) => ({
  name,
  resources: [tlsRoutes],
  desired: perCluster(cluster => desiredTlsRoutes(name, cluster, options)),
});

function desiredTlsRoutes(output: string, cluster: Cluster, { gateway }: TlsRouteOptions): Desired {
  const refusal = (host: string) =>
    host.includes('_') ? "a TLSRoute allows no '_' in host names" : undefined;
  const { byNamespace, findings } = serviceRules(output, cluster, refusal);
  const { name, namespace, sectionName } = gateway;
  const parent = {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(sectionName !== undefined && { sectionName }),
  };
  const objects: DesiredObject[] = [];
  for (const rules of byNamespace.values()) {
    for (const group of Map.groupBy(rules, ({ kind }) => kind).values()) {
      for (let at = 0; at < group.length; at += MAX_HOSTNAMES) {
        const part = at === 0 ? '' : ` ${at / MAX_HOSTNAMES + 1}`;
        objects.push(tlsRoute(output, cluster, group.slice(at, at + MAX_HOSTNAMES), parent, part));
      }
    }
  }
  const wildcards = [...byNamespace.values()]
    .flat()
    .map(({ host }) => host)
    .filter(isWildcard);
  return {
    objects,
    findings: wildcards.length === 0 ? findings : [...findings, wider(output, cluster, wildcards)],
  };
}

/** All rules are of one route. `part` tells the objects of a route with many hosts apart. */
function tlsRoute(
  output: string,
  cluster: Cluster,
  rules: readonly ServiceRule[],
  parent: object,
  part: string,
): DesiredObject {
  const [{ kind, service }] = rules;
  const object = {
    apiVersion: apiVersionOf(tlsRoutes),
    kind: tlsRoutes.kind,
    metadata: {
      name: objectName(output, `${cluster.name} ${kind}${part}`),
      namespace: service.namespace,
    },
    spec: {
      parentRefs: [parent],
      hostnames: rules.map(({ host }) => host),
      rules: [{ backendRefs: [{ name: service.name, port: service.port }] }],
    },
  };
  return { resource: tlsRoutes, cluster, object };
}

function wider(output: string, cluster: Cluster, wildcards: readonly string[]): Finding {
  const example = `a.b${wildcards[0].slice(1)}`;
  const text = `output '${output}' has ${nameHosts(wildcards)}: a Gateway matches any number of labels by that, such as '${example}', and this gateway exactly one`;
  const fix = 'List the hosts one by one, or let clients reach them through this gateway only';
  return clusterFinding(cluster, 'warning', 'WildcardWider', text, fix);
}
