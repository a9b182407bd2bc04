// One Cluster of Kubermatic → its cluster: the API server at its external name, its apps at `*.<id>.<zone>` on its nodes.
// And one Service of its control plane → the names that it adds to that cluster: the plan joins them, so that the oldest
// Service gets a name, and the loser of a claim is the Service. Pure.

import type { Backend, Cluster, ControlPlane, Origin, Route } from '../cluster/cluster.ts';
import { knownKinds } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { isWildcard } from '../cluster/hostname.ts';
import { formatHostPort } from '../config/address.ts';
import { readHost } from '../config/host.ts';
import { DNS_LABEL } from '../config/names.ts';
import { quote } from '../config/reading.ts';
import { toRoute, toRouteOfKind } from '../config/to-route.ts';
import { parseIp } from '../wire/ip-address.ts';
import { readRangeList, readRangeText } from './allow-ranges.ts';
import { choosePort, type KeptService } from './kept-service.ts';
import type { KubermaticFields } from './kubermatic-object.ts';
import type { MadeCluster } from './made-cluster.ts';
import type { NodeState } from './node-watches.ts';
import { exposureOf } from './nodeport-proxy.ts';
import { type Report, reportTo } from './report.ts';
import { serviceFinding } from './service-finding.ts';
import type { FoundService, PortChoice, ServiceLookup } from './service-lookup.ts';

export interface KubermaticOptions {
  /** `origin.source` of the cluster. */
  readonly source: string;
  readonly zone?: string | undefined;
  readonly via: 'endpoints' | 'clusterIP';
}

/** Where the API server of a cluster is. */
export interface ApiService {
  readonly name: string;
  readonly port: PortChoice;
}

/** Where Kubermatic has them. */
export const API_SERVICE = 'apiserver-external';
const API_PORT = 'secure';
const KONNECTIVITY_SERVICE = 'konnectivity-server';
export const ADMIN_SECRET = 'admin-kubeconfig';
const ADMIN_KEY = 'kubeconfig';
const RANGES = 'spec.apiServerAllowedIPRanges.cidrBlocks';
const PORT_FIX = 'Kubermatic creates its ports: look at the status of the Cluster';
/** As Kubernetes has them. */
const PORT_NAME = /^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$/;
/** Of a Service, as part of a kind: a kind is a DNS label, with 15 characters for the port. */
const MAX_NAME = 47;

/** The first exposed Service that has the external name, else the usual one, else the only one. */
export function apiServiceOf(
  { externalName }: KubermaticFields,
  exposed: readonly KeptService[],
  hasUsual: boolean,
): ApiService {
  const reading = readHost(externalName);
  const external = 'value' in reading ? reading.value : undefined;
  for (const service of exposed) {
    for (const [port, host] of exposureOf(service).hosts)
      if (host === external) return { name: service.name, port };
  }
  const [only, ...others] = exposed;
  const isOnly = !hasUsual && only !== undefined && others.length === 0;
  const usual = isOnly ? only.name : API_SERVICE;
  const known = exposed.find(({ name }) => name === usual);
  return { name: usual, port: known && mainPort(known) };
}

/** `rival`: the cluster that has its namespace, where another one has. */
export function kubermaticCluster(
  fields: KubermaticFields,
  api: ApiService,
  nodes: NodeState | undefined,
  rival: string | undefined,
  lookup: ServiceLookup,
  options: KubermaticOptions,
): MadeCluster {
  const { object, namespace, isPaused } = fields;
  const { name } = object;
  const origin: Origin = { source: options.source, object };
  const findings: Finding[] = [];
  const report = reportTo(findings, name, origin);
  if (!DNS_LABEL.test(namespace) || !DNS_LABEL.test(name)) {
    const text = `its name ${quote(name)} cannot be part of a namespace, so its control plane has none`;
    report('error', 'ServiceMissing', text, 'Use a name of up to 55 lower-case letters, digits and hyphens');
    return { findings };
  }
  if (rival !== undefined) {
    const text = `its namespace '${namespace}' is that of cluster '${rival}'`;
    report('error', 'NameClaimed', text, `Correct status.namespaceName: it should be 'cluster-${name}'`);
    return { findings };
  }
  const found = findPort(lookup, namespace, api, options.via);
  const missing = serviceFinding(found, { namespace, name: api.name, port: api.port, portFix: PORT_FIX });
  if (missing !== undefined) report(missing.severity, missing.code, missing.text, missing.fix);
  const allow = readRangeText(fields.allow, 'annotation causeway.dev/allow', report);
  const hosts = externalHosts(fields, report);
  adviseStrategy(fields, report);
  const apps = options.zone === undefined ? [] : appsRoutes(name, options.zone, nodes, report);
  for (const { severity, code, text, fix } of nodes?.problems ?? []) report(severity, code, text, fix);
  const cluster: Cluster = {
    name,
    id: name,
    origin,
    ...(allow !== undefined && { allow }),
    limits: {},
    identityRequired: false,
    routes: [controlRoute('api', hosts, [], found, controlRanges(fields, report)), ...apps],
    controlPlane: controlPlaneOf(namespace, isPaused, nodes),
  };
  return { cluster, findings };
}

/** Undefined cluster where the Service asks for nothing. */
export function kubermaticService(
  fields: KubermaticFields,
  service: KeptService,
  api: ApiService,
  lookup: ServiceLookup,
  options: KubermaticOptions,
): MadeCluster {
  const { namespace, name, uid, createdAt } = service;
  const object = { apiVersion: 'v1', kind: 'Service', namespace, name, uid, createdAt };
  const origin: Origin = { source: options.source, object };
  const findings: Finding[] = [];
  const report = reportTo(findings, fields.object.name, origin);
  const { hosts, isTunneled, problems } = exposureOf(service);
  for (const { severity, code, text, fix } of problems) report(severity, code, text, fix);
  // What is wrong with them is said on the Cluster.
  const allow = controlRanges(fields, () => {});
  const main = name === api.name ? api.port : mainPort(service);
  const wanted = new Map<PortChoice, readonly string[]>();
  if (isTunneled || hosts.has(String(main))) wanted.set(main, []);
  for (const [port, host] of hosts) wanted.set(port, [host]);
  const routes = [...wanted].map(([port, names], index): Route => {
    const isMain = port === main;
    const isApi = isMain && name === api.name;
    const found = isApi
      ? findPort(lookup, namespace, api, options.via)
      : lookup.find(namespace, name, port, options.via);
    // That of the API server is said on the Cluster.
    const missing = isApi ? undefined : serviceFinding(found, { namespace, name, port, portFix: PORT_FIX });
    if (missing !== undefined) report(missing.severity, missing.code, missing.text, missing.fix);
    const connect = isTunneled && isMain ? [`${name}.${namespace}.svc.cluster.local`] : [];
    const kind = isApi
      ? 'api'
      : isMain
        ? kindOf(name)
        : `${name.slice(0, MAX_NAME)}-${portName(port, index)}`;
    return controlRoute(kind, names, connect, found, allow);
  });
  if (routes.length === 0) return { findings };
  const cluster = { name: fields.object.name, origin, limits: {}, identityRequired: false, routes };
  return { cluster, findings };
}

/** Also without backends: its names stay claimed. */
function controlRoute(
  kind: string,
  hosts: readonly string[],
  connect: readonly string[],
  found: FoundService,
  allow: readonly string[] | undefined,
): Route {
  const isFound = found.kind === 'found';
  const backends = isFound ? found.backends : [];
  const route = toRouteOfKind(kind, { hosts, connect, backends, ...(allow !== undefined && { allow }) });
  return isFound ? { ...route, service: found.service } : route;
}

/** Kubermatic's own names become the kinds that every cluster has; no other Service may have those. */
function kindOf(service: string): string {
  if (service === KONNECTIVITY_SERVICE) return 'konnectivity';
  const isTaken = (knownKinds as readonly string[]).includes(service) || service === 'apps';
  return isTaken ? `service-${service}` : service;
}

/** An annotation may name a port that no Service can have. */
function portName(port: PortChoice, index: number): string {
  return typeof port === 'string' && PORT_NAME.test(port) ? port : String(index);
}

/** Tunnels name no port. */
function mainPort(service: KeptService): PortChoice {
  const [mapped] = exposureOf(service).hosts.keys();
  const { ports } = service;
  return mapped ?? (choosePort(ports, API_PORT) ?? choosePort(ports, undefined) ?? ports[0])?.name;
}

function findPort(
  lookup: ServiceLookup,
  namespace: string,
  { name, port = API_PORT }: ApiService,
  via: KubermaticOptions['via'],
): FoundService {
  const found = lookup.find(namespace, name, port, via);
  return found.kind === 'no-port' ? lookup.find(namespace, name, undefined, via) : found;
}

function externalHosts({ externalName }: KubermaticFields, report: Report): readonly string[] {
  const isSet = externalName !== undefined && externalName !== null && externalName !== '';
  // Behind a load balancer it may be an address, for which clients send no name.
  if (typeof externalName === 'string' && parseIp(externalName) !== undefined) return [];
  if (!isSet) {
    const text = 'status.address.externalName is not set, so it gives its API server no host';
    report('warning', 'HostMissing', text, 'Kubermatic sets it: look at the status of the Cluster');
    return [];
  }
  const reading = readHost(externalName);
  if ('value' in reading) return [reading.value];
  const fix = 'Kubermatic derives it from the datacenter: correct its DNS settings';
  report('error', 'HostInvalid', `status.address.externalName ${reading.fault}`, fix);
  return [];
}

/** Of the control plane only: the apps of a cluster are for its users. */
function controlRanges({ ranges }: KubermaticFields, report: Report): readonly string[] | undefined {
  return readRangeList(ranges, RANGES, report);
}

function adviseStrategy({ exposeStrategy }: KubermaticFields, report: Report): void {
  if (exposeStrategy !== 'NodePort' && exposeStrategy !== 'LoadBalancer') return;
  const text = `spec.exposeStrategy is ${exposeStrategy}, so clients can also go past the gateway`;
  const fix = 'If that is not intended: spec: { exposeStrategy: Tunneling }';
  report('info', 'ServiceTypeUnusual', text, fix);
}

function appsRoutes(
  id: string,
  zone: string,
  nodes: NodeState | undefined,
  report: Report,
): readonly Route[] {
  const host = `*.${id}.${zone}`;
  if (!isWildcard(host)) {
    const text = `'${host}' is no host name, so its apps cannot be reached`;
    report('error', 'ZoneInvalid', text, 'Use a shorter zone, such as clusters.example.com, on the source');
    return [];
  }
  const backends = (port: number): readonly Backend[] =>
    (nodes?.addresses ?? []).map(address => ({ text: formatHostPort(address, port), host: address, port }));
  return [
    toRoute('apps-https', { hosts: [host], backends: backends(443) }),
    toRoute('apps-http', { hosts: [host], backends: backends(80) }),
  ];
}

function controlPlaneOf(namespace: string, isPaused: boolean, nodes: NodeState | undefined): ControlPlane {
  return {
    isPaused,
    namespace,
    ...(nodes?.addresses && { nodes: nodes.addresses }),
    kubeconfig: { namespace, secret: ADMIN_SECRET, keys: [ADMIN_KEY] },
    servingCertificate: {
      namespace,
      secret: 'apiserver-tls',
      certKey: 'apiserver-tls.crt',
      keyKey: 'apiserver-tls.key',
    },
  };
}
