// One TenantControlPlane → its cluster, or nothing where it is not exposed, and findings. Pure.

import type { AgentAddon, ControlPlane, Route } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { TenantControlPlaneOptions } from '../config/config.ts';
import { quote } from '../config/reading.ts';
import { parseIp } from '../wire/ip-address.ts';
import { narrowRanges, readRangeList, readRangeText } from './allow-ranges.ts';
import { clusterNameOf, hasServiceName, toCluster } from './cluster-object.ts';
import type { MadeCluster } from './made-cluster.ts';
import { type Report, reportTo } from './report.ts';
import type { ServiceLookup } from './service-lookup.ts';
import { serviceRoute } from './service-route.ts';
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

export function tenantCluster(
  given: TenantControlPlane,
  lookup: ServiceLookup,
  options: TenantOptions,
): MadeCluster {
  const { system, source, wantsReconcilerNone = false } = options;
  const fields = readTenantControlPlane(given, system);
  if (!isExposed(fields, options)) return { findings: [] };
  const { object, konnectivity } = fields;
  const findings: Finding[] = [];
  const report = reportTo(findings, clusterNameOf(object), { source, object });
  if (!hasServiceName(fields, report)) return { findings };

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
  const cluster = toCluster(fields, source, { allow, routes, controlPlane });
  return { cluster, findings };

  function routeTo(kind: 'api' | 'konnectivity', names: readonly string[], port: TenantPort): Route {
    const { namespace, name } = object;
    const portFix = `Its operator creates that port: see the status of TenantControlPlane '${namespace}/${name}'`;
    const ports = [port.name, port.number] as const;
    const target = { namespace, names: [name] as const, ports, number: port.number, portFix };
    return serviceRoute(kind, names, target, { lookup, via: options.via, report });
  }
}

interface TenantPort {
  readonly name: string;
  /** Where no port has that name. */
  readonly number: number;
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
    certSANs: fields.certSANs,
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
