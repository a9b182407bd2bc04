// `causeway render` for ingress controllers: the clusters of a file as objects that somebody applies by hand. The objects
// are those that the outputs would write, with Services for the backends (render-services.ts), without a cluster at hand.
// Pure: the file in, objects and notes out. A note says what of the file is not in the objects.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { CATCH_ALL } from '../cluster/hostname.ts';
import type { Config, IngressFlavor, OutputKind, OutputOptions } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { plan } from '../plan/plan.ts';
import { newIngress } from './ingress.ts';
import { DEFAULT_ENTRY_POINTS, newIngressRouteTcp } from './ingress-route-tcp.ts';
import type { DesiredObject, Output } from './output.ts';
import {
  type GatewayRequest,
  gatewayObject,
  newGatewayRoute,
  refersTo,
  takesKind,
} from './render-gateway.ts';
import {
  type ExternalNames,
  type RenderedServices,
  renderedMetadata,
  renderServices,
  uniqueName,
} from './render-services.ts';
import { newTransportServer } from './transport-server.ts';

export const routeTargets = ['ingress', 'ingress-route-tcp', 'tls-route', 'transport-server'] as const;
export type RouteTarget = (typeof routeTargets)[number];

/** Absent: as the file's output of that kind says, else a default. */
export interface RouteFlags {
  readonly namespace?: string | undefined;
  readonly flavor?: Exclude<IngressFlavor, 'fromCluster'> | undefined;
  readonly className?: string | undefined;
  readonly entryPoints?: readonly string[] | undefined;
  /** A Gateway that exists. */
  readonly gateway?: { readonly name: string; readonly namespace?: string } | undefined;
  readonly apiVersion?: string | undefined;
}

export interface Rendered {
  /** Under the name of their cluster, or undefined for what belongs to none. In the order in which to apply them. */
  readonly groups: readonly { readonly cluster?: string; readonly objects: readonly KubeObject[] }[];
  /** Sentences without the name of the file. */
  readonly notes: readonly string[];
}

export function renderObjects(target: RouteTarget, config: Config, flags: RouteFlags): Rendered {
  const { namespace = '' } = flags;
  const { output, externalNames, gateway, notes: chosen } = choose(target, config, flags);
  const { clusters: planned } = plan(config.clusters);
  const services = renderServices(planned.map(withoutCatchAll), {
    namespace,
    externalNames,
    onePort: target === 'transport-server',
  });
  const { objects, findings } = output.desired(plan(services.clusters));
  const groups = objectGroups(services, objects, namespace);
  const hasRoutes = objects.length > 0;
  return {
    groups:
      gateway?.isPrinted && hasRoutes
        ? [{ objects: [gatewayObject(gateway, namespace)] }, ...groups]
        : groups,
    notes: [
      ...(hasRoutes ? chosen : []),
      ...services.notes,
      ...findings.flatMap(noteOf),
      ...planned.flatMap(notesOnCluster),
      ...(gateway === undefined ? [] : planned.flatMap(cluster => notTaken(cluster, gateway))),
      ...notesOnFile(config, target),
      ...(hasRoutes ? ['health checks, balance, timeouts and retries are those of the controller'] : []),
    ],
  };
}

interface Choice {
  readonly output: Output;
  readonly externalNames: ExternalNames;
  readonly gateway?: GatewayRequest;
  readonly notes: readonly string[];
}

const INGRESS_CONTROLLERS: Readonly<Record<IngressFlavor, ExternalNames>> = {
  haproxy: { isServed: true, note: 'the controller must run without --disable-service-external-name' },
  'haproxy-ingress': { isServed: true, note: 'the controller must run without --disable-external-name' },
  nginx: { isServed: false, note: 'ingress-nginx passes TLS through to cluster IPs only' },
  cilium: { isServed: false, note: 'Cilium serves no Services of type ExternalName' },
  generic: { isServed: true, note: 'see whether your controller serves those' },
  fromCluster: { isServed: true, note: 'see whether your controller serves those' },
};
const TRAEFIK: ExternalNames = {
  isServed: true,
  note: 'Traefik serves it with --providers.kubernetescrd.allowExternalNameServices=true only',
};
const GATEWAY_API: ExternalNames = {
  isServed: false,
  note: 'the Gateway API advises implementations not to serve Services of type ExternalName',
};
const F5_NGINX: ExternalNames = {
  isServed: true,
  note: 'NGINX Plus serves it, with resolver-addresses in the ConfigMap of the controller',
};

const V1_NOTE =
  'TLSRoute v1 came with Gateway API 1.5: give --api-version v1alpha3 or v1alpha2 for an older one';

/** Flags come first, then the file's output, then defaults. */
function choose(target: RouteTarget, config: Config, flags: RouteFlags): Choice {
  const { className } = flags;
  switch (target) {
    case 'ingress': {
      const found = entry(config, 'ingress');
      const flavor = flags.flavor ?? found.options?.flavor ?? 'haproxy';
      // The class of the file's controller is of no use to another one.
      const isSame = flavor === found.options?.flavor;
      const options = {
        flavor,
        className: className ?? (isSame ? found.options?.className : undefined),
        annotations: isSame ? (found.options?.annotations ?? {}) : {},
      };
      return {
        output: newIngress(target, options),
        externalNames: INGRESS_CONTROLLERS[flavor],
        notes: found.notes,
      };
    }
    case 'ingress-route-tcp': {
      const found = entry(config, 'ingressRouteTCP');
      const entryPoints = flags.entryPoints ?? found.options?.entryPoints ?? DEFAULT_ENTRY_POINTS;
      return {
        output: newIngressRouteTcp(target, { entryPoints }),
        externalNames: TRAEFIK,
        notes: found.notes,
      };
    }
    case 'tls-route': {
      const found = entry(config, 'tlsRoute');
      const named = flags.gateway ?? found.options?.gateway;
      const gateway = newGatewayRoute(config.listen, named, className);
      return {
        output: gateway.output(target, flags.apiVersion),
        externalNames: GATEWAY_API,
        gateway,
        notes: [...found.notes, ...gateway.notes, ...(flags.apiVersion === undefined ? [V1_NOTE] : [])],
      };
    }
    case 'transport-server': {
      const found = entry(config, 'transportServer');
      return {
        output: newTransportServer(target, { className: className ?? found.options?.className }),
        externalNames: F5_NGINX,
        notes: found.notes,
      };
    }
  }
}

/** The file's first output of a kind. */
export function entry<Kind extends OutputKind>(
  { outputs }: Pick<Config, 'outputs'>,
  kind: Kind,
): { readonly options?: OutputOptions[Kind]; readonly notes: readonly string[] } {
  const [first, ...others] = outputs.filter(output => output.kind === kind);
  if (first === undefined) return { notes: [] };
  const notes = others.length === 0 ? [] : [`outputs has several entries '${kind}': this is the first`];
  return { options: first.options as OutputOptions[Kind], notes };
}

function withoutCatchAll(cluster: Cluster): Cluster {
  const routes = cluster.routes.map(route => ({
    ...route,
    hosts: route.hosts.filter(host => host !== CATCH_ALL),
  }));
  return { ...cluster, routes };
}

function objectGroups(
  { clusters, objects: services }: RenderedServices,
  desired: readonly DesiredObject[],
  namespace: string,
): Rendered['groups'] {
  const byCluster = Map.groupBy(desired, ({ cluster }) => cluster.name);
  const taken = new Set<string>();
  return clusters.flatMap(({ name: cluster }) => {
    const routes = byCluster.get(cluster) ?? [];
    // Nothing would lead to its Services.
    if (routes.length === 0) return [];
    const referred = new Set(routes.flatMap(({ object }) => refersTo(object)));
    const used = (services.get(cluster) ?? []).filter(object => referred.has(serviceOf(object)));
    const named = routes.map(({ object }) => {
      const [service] = refersTo(object);
      const isPerRoute = object.kind === 'TLSRoute' || object.kind === 'TransportServer';
      const name = uniqueName(isPerRoute ? service : cluster, object.metadata.name, taken);
      const { annotations } = object.metadata;
      return {
        ...object,
        metadata: {
          ...renderedMetadata(name, cluster, namespace),
          ...(annotations && Object.keys(annotations).length > 0 && { annotations }),
        },
      };
    });
    return [{ cluster, objects: [...used, ...named] }];
  });
}

function serviceOf({ metadata: { name, labels } }: KubeObject): string {
  return labels?.['kubernetes.io/service-name'] ?? name;
}

/** Allow lists have a note of their own. */
function noteOf({ cluster, code, text }: Finding): readonly string[] {
  if (code === 'AllowListIgnored') return [];
  return [
    `${cluster === undefined ? '' : `cluster '${cluster}': `}${text.replace(/^output '[^']*' /, '').replaceAll('this gateway', 'causeway')}`,
  ];
}

function notesOnCluster({ name, id, allow, limits, routes }: Cluster): readonly string[] {
  const notes: string[] = [];
  const add = (text: string, kind?: string) =>
    void notes.push(`cluster '${name}'${kind === undefined ? '' : `, ${kind}`}: ${text}`);
  if (id !== undefined) add('agents cannot name it by its id: only causeway knows ids');
  if (allow !== undefined) add('its allow list is left out: restrict clients at the controller');
  if (Object.keys(limits).length > 0) add('its limits are left out: only causeway counts them');
  for (const { kind, hosts, redirect, allow: narrower, proxyProtocol, connect } of routes) {
    if (kind === 'apps-http') {
      const what = redirect ? 'the redirect to https' : 'cleartext HTTP';
      add(`${what} is left out: these objects pass TLS through, and nothing else`, kind);
      continue;
    }
    if (hosts.includes(CATCH_ALL)) add(`host '*' is left out: name its hosts`, kind);
    if (narrower !== undefined) add('its allow list is left out: restrict clients at the controller', kind);
    if (proxyProtocol !== 'none') {
      add(`proxyProtocol: ${proxyProtocol} is left out, and its backends expect that header`, kind);
    }
    if (connect.length > 0) add(`CONNECT names are left out: only causeway answers CONNECT`, kind);
  }
  return notes;
}

/** As in the gateway, where they are reachable on no listener. */
function notTaken({ name, routes }: Cluster, gateway: GatewayRequest): readonly string[] {
  return routes
    .filter(({ kind }) => kind !== 'apps-http' && !takesKind(gateway, kind))
    .map(({ kind }) => `cluster '${name}', ${kind}: its hosts are left out: no port of \`listen\` takes it`);
}

function notesOnFile({ listen, tunnel, sources }: Config, target: RouteTarget): readonly string[] {
  return [
    ...(target !== 'tls-route' && listen.some(({ only }) => only !== undefined)
      ? ['listen: `only` is left out: every host is reachable at every entry point of the controller']
      : []),
    ...(tunnel === undefined ? [] : ['tunnel is left out: tunnels end at causeway']),
    ...(sources.length > 0 ? ['clusters that its sources bring are not among these objects'] : []),
  ];
}
