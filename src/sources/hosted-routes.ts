// The services of a hosted control plane as routes: their hosts from OpenShift's Routes and `spec.services`, their backends
// from the Services of the control plane namespace. Ports and names are those of HyperShift's own shared ingress.

import type { Route } from '../cluster/cluster.ts';
import type { WatchOptions } from '../config/config.ts';
import { readHost } from '../config/host.ts';
import { toRouteOfKind } from '../config/to-route.ts';
import type { HostedClusterFields, KeptRoute } from './hosted-cluster.ts';
import type { HostedControlPlane } from './hosted-control-planes.ts';
import { isSet } from './json-fields.ts';
import { acceptedHost, type Report } from './report.ts';
import { serviceFinding } from './service-finding.ts';
import type { FoundService, ServiceLookup } from './service-lookup.ts';

interface HostedService {
  /** Of our route. */
  readonly kind: string;
  /** In `spec.services`; undefined where that does not name it. */
  readonly publishedAs: string | undefined;
  /** Of the Route for clients outside. Those for private networks, `oauth-private` and the like, are not ours to expose. */
  readonly route: string;
  /** Where no Route names the Service: the first of these that exists. */
  readonly services: readonly [string, ...string[]];
  readonly port: number;
}

/** In the order in which they get a host that two of them have. */
const hostedServices: readonly HostedService[] = [
  {
    kind: 'api',
    publishedAs: 'APIServer',
    route: 'kube-apiserver',
    services: ['kube-apiserver'],
    port: 6443,
  },
  {
    kind: 'konnectivity',
    publishedAs: 'Konnectivity',
    route: 'konnectivity-server',
    services: ['konnectivity-server'],
    port: 8091,
  },
  {
    kind: 'oauth',
    publishedAs: 'OAuthServer',
    route: 'oauth',
    services: ['oauth-openshift'],
    port: 6443,
  },
  {
    kind: 'ignition',
    publishedAs: 'Ignition',
    route: 'ignition-server',
    services: ['ignition-server-proxy', 'ignition-server'],
    port: 443,
  },
  {
    kind: 'metrics',
    publishedAs: undefined,
    route: 'metrics-proxy',
    services: ['metrics-proxy'],
    port: 443,
  },
];

export function hostedRoutes(
  controlPlane: HostedControlPlane,
  fields: HostedClusterFields,
  lookup: ServiceLookup,
  via: WatchOptions['via'],
  report: Report,
): readonly Route[] {
  const { namespace } = controlPlane;
  const { object } = fields;
  const taken = new Map<string, string>();
  return hostedServices.flatMap(service => {
    const { kind } = service;
    const route = controlPlane.routes.find(({ name }) => name === service.route);
    const hosts = hostsOf(service, route).filter(host => {
      const owner = taken.get(host);
      if (owner === undefined) taken.set(host, kind);
      else reportTwice(host, kind, owner);
      return owner === undefined;
    });
    // Nodes reach the API server by id, also where it has no host.
    if (hosts.length === 0 && kind !== 'api') return [];
    return [routeTo(service, route, hosts)];
  });

  function hostsOf({ kind, publishedAs, route: name }: HostedService, route: KeptRoute | undefined) {
    const published = fields.publishing.filter(
      each => publishedAs !== undefined && each.service === publishedAs,
    );
    const given: (readonly [unknown, string])[] = [
      [route?.host, `spec.host of Route '${namespace}/${name}'`],
      ...published.map(
        ({ hostname }) => [hostname, `the hostname of ${publishedAs} in spec.services`] as const,
      ),
      [kind === 'api' ? fields.dnsName : undefined, 'spec.kubeAPIServerDNSName'],
    ];
    const set = given.filter(([host]) => isSet(host));
    if (set.length === 0 && (route !== undefined || published.some(({ isRoute }) => isRoute))) {
      const why = route === undefined ? 'does not exist' : 'has no host';
      const text = `route '${kind}' has no host: Route '${namespace}/${name}' ${why}, and spec.services gives it no hostname`;
      // Without a host its id still leads to the API server.
      report(kind === 'api' ? 'warning' : 'error', 'HostMissing', text, operatorFix());
    }
    const hosts = set.map(([host, where]) => acceptedHost(readHost(host), where, report));
    return [...new Set(hosts.filter(host => host !== undefined))];
  }

  function reportTwice(host: string, kind: string, owner: string): void {
    const text = `'${host}' is the host of route '${owner}', so route '${kind}' cannot have it too`;
    report('error', 'HostInvalid', text, `Give each service in spec.services a hostname of its own`);
  }

  /** Also without backends: its hosts stay claimed. */
  function routeTo(service: HostedService, route: KeptRoute | undefined, hosts: readonly string[]): Route {
    const { kind, port } = service;
    const name = serviceOf(service, route);
    const found = findPort(name, port);
    const problem = serviceFinding(found, { namespace, name, port, portFix: operatorFix() });
    if (problem !== undefined) {
      const fix = problem.code === 'ServiceMissing' ? operatorFix() : problem.fix;
      report(problem.severity, problem.code, problem.text, fix);
    }
    const backends = found.kind === 'found' ? found.backends : [];
    const target = found.kind === 'found' ? found.service : { namespace, name, port };
    return {
      ...toRouteOfKind(kind, { hosts, backends }),
      ...(found.kind !== 'unusable' && { service: target }),
    };
  }

  function serviceOf({ kind, services, route: routeName }: HostedService, route: KeptRoute | undefined) {
    const [usual] = services;
    if (kind !== 'api') {
      const exists = (name: string) => lookup.find(namespace, name, undefined, via).kind !== 'no-service';
      return route?.service ?? services.find(exists) ?? usual;
    }
    // Its host and the cluster's id lead to the same route.
    if (route?.service !== undefined && route.service !== usual) {
      const text = `Route '${namespace}/${routeName}' names Service '${route.service}', and is served by Service '${usual}', as the cluster's id is`;
      report('warning', 'BackendForbidden', text, `Set spec.to.name of the Route to '${usual}'`);
    }
    return usual;
  }

  /** By its number, else the only one: some platforms have others. */
  function findPort(name: string, port: number): FoundService {
    const found = lookup.find(namespace, name, port, via);
    const only = found.kind === 'no-port' ? lookup.find(namespace, name, undefined, via) : found;
    return only.kind === 'no-port' ? found : only;
  }

  function operatorFix(): string {
    return `HyperShift creates it: see kubectl describe hostedcluster ${object.name} -n ${object.namespace}`;
  }
}
