// Traefik's IngressRouteTCP (traefik.io/v1alpha1, Traefik 3): TLS passed through by SNI to a Service.

import type { Cluster } from '../cluster/cluster.ts';
import { isWildcard } from '../cluster/hostname.ts';
import type { OutputOptions } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf, type Resource, resource } from '../kube/resources.ts';
import { objectName } from './object-name.ts';
import type { Desired, NewOutput } from './output.ts';
import { perCluster } from './per-cluster.ts';
import { type ServiceRule, serviceRules } from './service-rules.ts';

export const ingressRouteTcps: Resource<KubeObject> = resource(
  'traefik.io/v1alpha1',
  'ingressroutetcps',
  'IngressRouteTCP',
);

/** The entry point for TLS in Traefik's own examples and chart. */
export const DEFAULT_ENTRY_POINTS: readonly string[] = ['websecure'];
/**
 * Traefik tries longer rules first, and the expression for a wildcard is longer than an exact host: with the lowest
 * priority the exact host wins.
 */
const WILDCARD_PRIORITY = 1;

export const newIngressRouteTcp: NewOutput<OutputOptions['ingressRouteTCP']> = (name, { entryPoints }) => ({
  name,
  resources: [ingressRouteTcps],
  desired: perCluster(cluster => desiredIngressRouteTcps(name, cluster, { entryPoints })),
});

export interface IngressRouteTcpOptions {
  readonly entryPoints: readonly string[];
  readonly annotations?: Readonly<Record<string, string>>;
}

export function desiredIngressRouteTcps(
  output: string,
  cluster: Cluster,
  { entryPoints, annotations }: IngressRouteTcpOptions,
): Desired {
  const { byNamespace, findings } = serviceRules(output, cluster);
  const name = objectName(output, cluster.name);
  const objects = [...byNamespace].map(([namespace, rules]) => ({
    resource: ingressRouteTcps,
    cluster,
    object: {
      apiVersion: apiVersionOf(ingressRouteTcps),
      kind: ingressRouteTcps.kind,
      metadata: { name, namespace, ...(annotations && { annotations }) },
      spec: {
        ...(entryPoints.length > 0 && { entryPoints }),
        routes: rules.map(routeOf),
        tls: { passthrough: true },
      },
    },
  }));
  return { objects, findings };
}

/** Hosts are legal names, so that nothing in them can end the expression. */
function routeOf({ host, service: { name, port } }: ServiceRule): object {
  const services = [{ name, port }];
  if (!isWildcard(host)) return { match: `HostSNI(\`${host}\`)`, services };
  // From 3.7 on HostSNI() knows wildcards; the regular expression works in every version.
  const parent = host.slice(1).replaceAll('.', String.raw`\.`);
  return { match: `HostSNIRegexp(\`^[^.]+${parent}$\`)`, priority: WILDCARD_PRIORITY, services };
}
