// TransportServers of F5 NGINX Ingress Controller, which passes TLS through where it runs with -enable-tls-passthrough.
// One object for each host.

import type { Cluster } from '../cluster/cluster.ts';
import { isWildcard } from '../cluster/hostname.ts';
import type { OutputOptions } from '../config/config.ts';
import { isRecord } from '../config/is-record.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf, resource } from '../kube/resources.ts';
import { objectName } from './object-name.ts';
import type { Desired, NewOutput, OutputResource, Refusal } from './output.ts';
import { perCluster } from './per-cluster.ts';
import { type ServiceRule, serviceRules } from './service-rules.ts';
import { unanswered } from './unanswered.ts';

export const transportServers: OutputResource = {
  ...resource('k8s.nginx.org/v1', 'transportservers', 'TransportServer'),
  refusalOf: transportRefusal,
};

type TransportServerOptions = OutputOptions['transportServer'];

/** The names that the controller gives its own listener for TLS. */
const LISTENER = { name: 'tls-passthrough', protocol: 'TLS_PASSTHROUGH' };
/** Within the object. */
const UPSTREAM = 'backend';
const SILENT_FIX =
  "Set className of the output to the controller's class, and start it with -enable-custom-resources";
/** Of the controller's message. */
const MAX_MESSAGE = 500;

export const newTransportServer: NewOutput<TransportServerOptions> = (name, options) => ({
  name,
  resources: [transportServers],
  desired: perCluster(cluster => desiredTransportServers(name, cluster, options)),
});

function desiredTransportServers(
  output: string,
  cluster: Cluster,
  { className }: TransportServerOptions,
): Desired {
  const { byNamespace, findings } = serviceRules(output, cluster, refusal);
  const objects = [...byNamespace.values()].flat().map(rule => ({
    resource: transportServers,
    cluster,
    object: transportServer(objectName(output, `${cluster.name} ${rule.host}`), rule, className),
  }));
  return { objects, findings };
}

/** RFC 1123 names, as the controller wants them. It looks hosts up as they are: a wildcard would match nothing. */
function refusal(host: string): string | undefined {
  if (host.includes('_')) return "a TransportServer allows no '_' in host names";
  return isWildcard(host) ? 'NGINX passes only exact hosts through' : undefined;
}

function transportServer(
  name: string,
  { host, service }: ServiceRule,
  className: string | undefined,
): KubeObject & { readonly spec: object } {
  return {
    apiVersion: apiVersionOf(transportServers),
    kind: transportServers.kind,
    metadata: { name, namespace: service.namespace },
    spec: {
      ...(className !== undefined && { ingressClassName: className }),
      listener: LISTENER,
      host,
      upstreams: [{ name: UPSTREAM, service: service.name, port: service.port }],
      action: { pass: UPSTREAM },
    },
  };
}

/** The controller calls one `Invalid` that it cannot use, and `Rejected` one whose host or listener it does not give. */
function transportRefusal(object: KubeObject): Refusal | undefined {
  const { status } = object as KubeObject & { status?: unknown };
  if (!isRecord(status) || typeof status.state !== 'string' || status.state === '') {
    const text = 'no NGINX Ingress Controller says anything about it';
    return unanswered(object, { text, fix: SILENT_FIX });
  }
  if (status.state !== 'Invalid' && status.reason !== 'Rejected') return undefined;
  const words = [status.reason, status.message].filter(each => typeof each === 'string' && each !== '');
  return {
    text: `NGINX Ingress Controller does not serve it: ${words.join(': ').slice(0, MAX_MESSAGE)}`,
    fix: 'Start the controller with -enable-tls-passthrough, and let no other object have the host',
  };
}
