// Findings about a TenantControlPlane that is served, but whose own settings keep clients, nodes or agents from coming
// through the gateway. Each has the YAML that settles it, in flow style, since findings are single lines.

import { normalizeHost } from '../cluster/hostname.ts';
import { quote } from '../config/reading.ts';
import { gapsOf, RECONCILER_FLAG, reconcilerType } from './control-plane-gaps.ts';
import { flagValue } from './flag-value.ts';
import { type Report, yamlList } from './report.ts';
import type { TenantFields } from './tenant-control-plane.ts';
import type { TenantHosts } from './tenant-hosts.ts';

const HTTPS_PORT = 443;

export function adviseTenant(
  fields: TenantFields,
  hosts: TenantHosts,
  wantsReconcilerNone: boolean,
  report: Report,
): void {
  const gaps = gapsOf(fields, hosts, wantsReconcilerNone);
  adviseSans(gaps.certSANs, report);
  adviseHostname(fields, hosts, report);
  adviseKonnectivity(fields, hosts, gaps.agentArgs, report);
  if (wantsReconcilerNone) adviseReconciler(fields, report);
  adviseServiceType(fields, report);
}

function adviseSans(missing: readonly string[], report: Report): void {
  if (missing.length === 0) return;
  const names = missing.map(host => `'${host}'`).join(' and ');
  const text = `spec.networkProfile.certSANs does not list ${names}, so clients will not trust the API server's certificate under that name`;
  const yaml = `spec: { networkProfile: { certSANs: ${yamlList(missing)} } }`;
  report('warning', 'CertificateSanMissing', text, `Add to the list: ${yaml}`);
}

/** Kubeconfigs and joining nodes use this hostname; without a port they use the API server's own. */
function adviseHostname(
  { ingress, gatewayHostname, port }: TenantFields,
  hosts: TenantHosts,
  report: Report,
) {
  const [host] = hosts.api;
  if (host === undefined || (typeof gatewayHostname === 'string' && gatewayHostname !== '')) return;
  const yaml = (name: string, className: string) =>
    `spec: { controlPlane: { ingress: { hostname: "${name}:${HTTPS_PORT}"${className} } } }`;
  const hostname = ingress?.hostname;
  if (hostname === undefined || hostname === null || hostname === '') {
    const text = `spec.controlPlane.ingress.hostname is not set, so kubeconfigs and nodes do not use '${host}'`;
    // A class that no controller handles: the Ingress of the tenant's own controller would compete with ours.
    report('info', 'HostnamePortMissing', text, `Add ${yaml(host, ', ingressClassName: unhandled')}`);
    return;
  }
  if (typeof hostname !== 'string' || hostname.includes(':') || port === HTTPS_PORT) return;
  const name = normalizeHost(hostname);
  if (!hosts.api.includes(name)) return;
  const text = `spec.controlPlane.ingress.hostname has no port, so kubeconfigs and nodes use port ${port} of '${name}' (spec.networkProfile.port)`;
  report(
    'warning',
    'HostnamePortMissing',
    text,
    `If the gateway serves port ${HTTPS_PORT}: ${yaml(name, '')}`,
  );
}

function adviseKonnectivity(
  { konnectivity }: TenantFields,
  hosts: TenantHosts,
  missing: readonly string[],
  report: Report,
): void {
  if (konnectivity === undefined || hosts.konnectivity === undefined) return;
  const yaml = (args: readonly string[]) =>
    `spec: { addons: { konnectivity: { agent: { extraArgs: ${yamlList(args)} } } } }`;
  const given = flagValue(konnectivity.agentArgs, '--proxy-server-host');
  if (given !== undefined && normalizeHost(given) !== hosts.konnectivity) {
    const text = `the konnectivity agent connects to ${quote(given)} (--proxy-server-host), not to '${hosts.konnectivity}'`;
    const args = [`--proxy-server-host=${hosts.konnectivity}`, `--proxy-server-port=${hosts.port}`];
    report('warning', 'KonnectivityArgsMissing', text, `Replace the arguments by ${yaml(args)}`);
  } else if (missing.length > 0) {
    const text = `the konnectivity agent lacks ${missing.join(' and ')}, so it does not connect through the gateway`;
    report('warning', 'KonnectivityArgsMissing', text, `Add to the list: ${yaml(missing)}`);
  }
}

function adviseReconciler(fields: TenantFields, report: Report): void {
  const type = reconcilerType(fields);
  if (type === 'none') return;
  const found = type === undefined ? 'lacks' : `has ${quote(`${RECONCILER_FLAG}=${type}`)} instead of`;
  const text = `the API server ${found} ${RECONCILER_FLAG}=none, so it undoes our endpoints of Service 'default/kubernetes'`;
  const args = yamlList([`${RECONCILER_FLAG}=none`]);
  const yaml = `spec: { controlPlane: { deployment: { extraArgs: { apiServer: ${args} } } } }`;
  report(
    'warning',
    'ReconcilerTypeMissing',
    text,
    `${type === undefined ? 'Add to the list' : 'Replace it'}: ${yaml}`,
  );
}

function adviseServiceType({ serviceType }: TenantFields, report: Report): void {
  if (serviceType !== 'LoadBalancer' && serviceType !== 'NodePort') return;
  const text = `its Service has the type ${serviceType}, so clients can also go past the gateway`;
  const yaml = 'spec: { controlPlane: { service: { serviceType: ClusterIP } } }';
  report(
    'info',
    'ServiceTypeUnusual',
    text,
    `If that is not intended: ${yaml}, and annotation causeway.dev/allow instead of loadBalancerSourceRanges`,
  );
}
