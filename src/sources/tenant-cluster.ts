// One TenantControlPlane → its cluster, or nothing where it is not exposed, and findings. Pure.

import type { AgentAddon, Cluster, ControlPlane, Route } from '../cluster/cluster.ts';
import { CLUSTER_ID } from '../cluster/cluster-id.ts';
import type { Finding } from '../cluster/finding.ts';
import type { TenantControlPlaneOptions } from '../config/config.ts';
import { DNS_LABEL, DNS_LABEL_WORDS } from '../config/names.ts';
import { quote } from '../config/reading.ts';
import { toRoute } from '../config/route-schema.ts';
import { parseIp } from '../wire/ip-address.ts';
import { narrowRanges, readRangeList, readRangeText } from './allow-ranges.ts';
import { type Report, reportTo } from './report.ts';
import { serviceFinding } from './service-finding.ts';
import type { FoundService, ServiceLookup } from './service-lookup.ts';
import { adviseTenant } from './tenant-advice.ts';
import {
  readTenantControlPlane,
  type TenantControlPlane,
  type TenantFields,
  type TenantSystem,
} from './tenant-control-plane.ts';
import { isExposed, tenantHosts } from './tenant-hosts.ts';

export interface TenantOptions extends Pick<TenantControlPlaneOptions, 'domain' | 'expose' | 'via'> {
  /** `origin.source` of the cluster. */
  readonly source: string;
  readonly system: TenantSystem;
  /** We write the tenant's endpoints of `default/kubernetes`, so its API server must not. */
  readonly wantsReconcilerNone?: boolean;
}

export interface TenantCluster {
  readonly cluster?: Cluster;
  readonly findings: readonly Finding[];
}

export function tenantCluster(
  given: TenantControlPlane,
  lookup: ServiceLookup,
  options: TenantOptions,
): TenantCluster {
  const { system, source, wantsReconcilerNone = false } = options;
  const fields = readTenantControlPlane(given, system);
  if (!isExposed(fields, options)) return { findings: [] };
  const { object, konnectivity } = fields;
  const name = `${object.namespace}.${object.name}`;
  const origin = { source, object };
  const findings: Finding[] = [];
  const report = reportTo(findings, name, origin);
  if (!DNS_LABEL.test(object.name)) {
    const text = `its name ${quote(object.name)} cannot be that of a Service, so its control plane has none`;
    report('error', 'ServiceMissing', text, `Use a name that is ${DNS_LABEL_WORDS}`);
    return { findings };
  }

  const hosts = tenantHosts(fields, options, report);
  const allow = narrowRanges(
    readRangeList(fields.sourceRanges, 'spec.networkProfile.loadBalancerSourceRanges', report),
    readRangeText(fields.allow, 'annotation causeway.dev/allow', report),
  );
  const api = routeTo('api', hosts.api, { name: 'kube-apiserver', number: fields.port });
  const routes = [api];
  // Without a host nobody can reach it, and an annotated Service may bring the route instead.
  if (konnectivity !== undefined && hosts.konnectivity !== undefined) {
    const port = { name: 'konnectivity-server', number: konnectivity.port };
    routes.push(routeTo('konnectivity', [hosts.konnectivity], port));
  }
  const controlPlane = controlPlaneOf(fields, report);
  adviseTenant(fields, hosts, wantsReconcilerNone, report);
  const cluster: Cluster = {
    name,
    ...(CLUSTER_ID.test(object.uid) && { id: object.uid }),
    origin,
    ...(allow !== undefined && { allow }),
    limits: {},
    identityRequired: false,
    routes,
    controlPlane,
  };
  return { cluster, findings };

  /** Also without backends: its hosts stay claimed. */
  function routeTo(kind: 'api' | 'konnectivity', names: readonly string[], port: TenantPort): Route {
    const found = findPort(lookup, fields, port, options.via);
    reportBackends(kind, fields, port, found, report);
    const backends = found.kind === 'found' ? found.backends : [];
    const expected = { namespace: object.namespace, name: object.name, port: port.number };
    const service = found.kind === 'found' ? found.service : expected;
    return { ...toRoute(kind, { hosts: names, backends }), ...(found.kind !== 'unusable' && { service }) };
  }
}

interface TenantPort {
  readonly name: string;
  /** Where no port has that name. */
  readonly number: number;
}

function findPort(
  lookup: ServiceLookup,
  { object: { namespace, name } }: TenantFields,
  port: TenantPort,
  via: TenantOptions['via'],
): FoundService {
  const found = lookup.find(namespace, name, port.name, via);
  return found.kind === 'no-port' ? lookup.find(namespace, name, port.number, via) : found;
}

function reportBackends(
  kind: 'api' | 'konnectivity',
  { object: { namespace, name } }: TenantFields,
  port: TenantPort,
  found: FoundService,
  report: Report,
): void {
  // Both routes have the same Service: the one for api has said what is wrong with it as a whole.
  if (kind === 'konnectivity' && found.kind !== 'found' && found.kind !== 'no-port') return;
  const portFix = `Its operator creates that port: see the status of TenantControlPlane '${namespace}/${name}'`;
  const problem = serviceFinding(found, { namespace, name, port: port.name, portFix });
  if (problem !== undefined) report(problem.severity, problem.code, problem.text, problem.fix);
}

function controlPlaneOf(fields: TenantFields, report: Report): ControlPlane {
  const { object, isPaused, ingress, tcpProxy, adminSecret, certificateSecret } = fields;
  return {
    isPaused,
    ...(ingress && {
      ingress: {
        ...(ingress.controllerType !== undefined && { controllerType: ingress.controllerType }),
        ...(ingress.className !== undefined && { className: ingress.className }),
        annotations: ingress.annotations,
      },
    }),
    kubeconfig: {
      namespace: object.namespace,
      secret: adminSecret ?? `${object.name}-admin-kubeconfig`,
      keys: ['admin.svc', 'admin.conf'],
    },
    servingCertificate: {
      namespace: object.namespace,
      secret: certificateSecret ?? `${object.name}-api-server-certificate`,
      certKey: 'apiserver.crt',
      keyKey: 'apiserver.key',
    },
    ...(fields.certSANs.length > 0 && { certSANs: fields.certSANs }),
    ...(tcpProxy && { agent: checkedAddon(tcpProxy, report) }),
  };
}

/** The agent does not start with an address that is none. */
function checkedAddon(addon: AgentAddon, report: Report): AgentAddon {
  const { internalEndpoint, ...rest } = addon;
  if (internalEndpoint === undefined || parseIp(internalEndpoint) !== undefined) return addon;
  const text = `spec.addons.tcpProxy.internalEndpoint must be an IP address, and is ignored: current value is ${quote(internalEndpoint)}`;
  report(
    'warning',
    'HostInvalid',
    text,
    'Use an address of the gateway that the nodes can reach, or remove it',
  );
  return rest;
}
