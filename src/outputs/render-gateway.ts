// `causeway render tls-route`: TLSRoutes and the Gateway that they belong to. The Gateway has a listener for each port of
// the file, and a route attaches to those that its kind may use. Pure.
//
// A Gateway that somebody names exists already, and is not printed: applied by hand, ours would replace its listeners.

import type { Listener } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { DesiredObject, Output } from './output.ts';
import { renderedMetadata } from './render-services.ts';
import { newTlsRoute } from './tls-route.ts';

const GROUP = 'gateway.networking.k8s.io';
/** Of the Gateway. */
const DEFAULT_NAME = 'causeway';
/** There is no class that every cluster has. */
const DEFAULT_CLASS = 'traefik';
/** `listen` may have port 0, which means any. */
const DEFAULT_PORT = 443;
/** Cleartext HTTP is expected there, and browsers would not try TLS. */
const HTTP_PORT = 80;

interface NamedGateway {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly sectionName?: string | undefined;
}

export interface GatewayRequest {
  readonly isPrinted: boolean;
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly className: string;
  readonly ports: readonly GatewayPort[];
  readonly notes: readonly string[];
  output(name: string, apiVersion?: string): Output;
}

interface GatewayPort {
  readonly section: string;
  readonly port: number;
  /** Absent: all. */
  readonly kinds?: ReadonlySet<string>;
}

export function newGatewayRoute(
  listen: readonly Listener[],
  named: NamedGateway | undefined,
  className: string | undefined,
): GatewayRequest {
  const isPrinted = named === undefined || className !== undefined;
  const { name, namespace, sectionName } = named ?? { name: DEFAULT_NAME };
  const gateway = {
    isPrinted,
    name,
    namespace,
    className: className ?? DEFAULT_CLASS,
    ports: portsOf(listen, sectionName),
  };
  const notes = isPrinted
    ? className === undefined
      ? [
          `the Gateway has class '${DEFAULT_CLASS}': give yours with --class-name; kubectl get gatewayclasses lists them`,
        ]
      : []
    : [
        `Gateway '${name}' must exist, with a listener of protocol TLS and mode Passthrough: it is not printed without --class-name`,
      ];
  const output = (target: string, apiVersion?: string): Output => {
    const routes = newTlsRoute(target, { gateway: { name, namespace, sectionName } });
    return {
      ...routes,
      desired: given => {
        const { objects, findings } = routes.desired(given);
        const kinds = new Map(
          given.clusters.flatMap(cluster =>
            cluster.routes.map(each => [each.service?.name ?? '', each.kind]),
          ),
        );
        return {
          objects: objects.flatMap(each => adapted(each, isPrinted ? gateway : undefined, kinds, apiVersion)),
          findings,
        };
      },
    };
  };
  return { ...gateway, notes, output };
}

/** Whether a listener may have routes of this kind. */
export function takesKind({ isPrinted, ports }: GatewayRequest, kind: string): boolean {
  return !isPrinted || ports.some(({ kinds }) => kinds?.has(kind) ?? true);
}

export function gatewayObject(
  { name, namespace: own, className, ports }: GatewayRequest,
  namespace: string,
): KubeObject {
  const isElsewhere = own !== undefined && own !== namespace;
  const listeners = ports.map(({ section, port }) => ({
    name: section,
    port,
    protocol: 'TLS',
    tls: { mode: 'Passthrough' },
    allowedRoutes: {
      kinds: [{ group: GROUP, kind: 'TLSRoute' }],
      namespaces: { from: isElsewhere ? 'All' : 'Same' },
    },
  }));
  return {
    apiVersion: `${GROUP}/v1`,
    kind: 'Gateway',
    metadata: renderedMetadata(name, undefined, own ?? namespace),
    spec: { gatewayClassName: className, listeners },
  } as KubeObject;
}

/** The Services that a route object leads to. */
export function refersTo(object: KubeObject): readonly string[] {
  const { spec } = object as KubeObject & { spec?: Spec };
  return [
    ...(spec?.rules ?? []).flatMap(({ backendRefs = [], http }) => [
      ...backendRefs.map(({ name }) => name),
      ...(http?.paths ?? []).map(({ backend }) => backend.service.name),
    ]),
    ...(spec?.routes ?? []).flatMap(({ services }) => services.map(({ name }) => name)),
    ...(spec?.upstreams ?? []).map(({ service }) => service),
  ];
}

interface Spec {
  readonly parentRefs?: readonly object[];
  readonly rules?: readonly {
    readonly backendRefs?: readonly { readonly name: string }[];
    readonly http?: {
      readonly paths: readonly { readonly backend: { readonly service: { readonly name: string } } }[];
    };
  }[];
  readonly routes?: readonly { readonly services: readonly { readonly name: string }[] }[];
  readonly upstreams?: readonly { readonly service: string }[];
}

/** One for each port; listeners of the same port have their kinds together. */
function portsOf(listen: readonly Listener[], sectionName: string | undefined): readonly GatewayPort[] {
  const byPort = Map.groupBy(listen, ({ port }) => (port === 0 ? DEFAULT_PORT : port));
  const ports = [...byPort]
    .map(([port, listeners]) => {
      const isOpen = listeners.some(({ only }) => only === undefined);
      const kinds = new Set(listeners.flatMap(({ only }) => only ?? []));
      return { port, ...(!isOpen && { kinds }) };
    })
    .filter(({ port, kinds }) => port !== HTTP_PORT && !(kinds?.size === 1 && kinds.has('apps-http')));
  const used = ports.length > 0 ? ports : [{ port: DEFAULT_PORT }];
  return used.map((each, i) => ({
    ...each,
    section: i === 0 && sectionName ? sectionName : `tls-${each.port}`,
  }));
}

/** With the listeners that its kind may use, and the version that the cluster serves. None if no listener takes it. */
function adapted(
  desired: DesiredObject,
  gateway: Pick<GatewayRequest, 'ports'> | undefined,
  kinds: ReadonlyMap<string, string>,
  apiVersion: string | undefined,
): readonly DesiredObject[] {
  const { spec, ...object } = desired.object as KubeObject & { readonly spec: Required<Spec> };
  const kind = kinds.get(refersTo(desired.object)[0] ?? '') ?? '';
  const sections = gateway?.ports.filter(({ kinds: only }) => only?.has(kind) ?? true) ?? [];
  const isEverywhere = gateway === undefined || sections.length === gateway.ports.length;
  if (!isEverywhere && sections.length === 0) return [];
  const parents = isEverywhere
    ? spec.parentRefs
    : sections.map(({ section }) => ({ ...spec.parentRefs[0], sectionName: section }));
  // With the defaults of the CustomResourceDefinition: otherwise every `kubectl apply` would see a change in these lists.
  const parentRefs = parents.map(parent => ({ group: GROUP, kind: 'Gateway', ...parent }));
  const rules = spec.rules.map(({ backendRefs = [] }) => ({
    backendRefs: backendRefs.map(ref => ({ group: '', kind: 'Service', ...ref, weight: 1 })),
  }));
  const version = apiVersion === undefined ? object.apiVersion : `${GROUP}/${apiVersion}`;
  return [
    {
      ...desired,
      object: { ...object, apiVersion: version, spec: { ...spec, parentRefs, rules } } as KubeObject,
    },
  ];
}
