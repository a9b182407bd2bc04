// What the agent of one tenant is started with: settings of the output `tenantAgent`, the cluster's own (Steward's
// `addons.tcpProxy`), and what follows from both. Pure. Cluster objects are written by tenants, so anything may be in them.

import type { AgentAddon, Cluster } from '../cluster/cluster.ts';
import { CLUSTER_ID } from '../cluster/cluster-id.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';
import { isWildcard } from '../cluster/hostname.ts';
import type { TenantAgentOptions } from '../config/config.ts';
import { formatIp, parseIp } from '../wire/ip-address.ts';

/** Ingress controllers listen here, and so do gateways that share their address. */
const DEFAULT_PORT = 443;
/** Of the whole tenant's nodes; more is a mistake. */
const MAX_ALIASES = 100;
/** Kubernetes' own rule, which refuses `_`. */
const ALIAS = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/;
const STEWARD_IMAGE = /(?:^|\/)(?:steward-)?tcp-proxy(?:[:@]|$)/;

export interface TenantAgentContext {
  /** Of this program, for the default image. */
  readonly version: string;
  /** The key that signs a cluster's id. Absent without `identity.secretFile`. */
  readonly keyOf?: (id: string) => string;
  /** The API server's certificate, for `terminate`; undefined while it cannot be read. */
  readonly certificateOf?: (cluster: Cluster) => KeyPair | undefined;
  /** The agents write the endpoints of `default/kubernetes`; false where `tenantEndpoints` does. */
  readonly writesEndpoints: boolean;
  /** `tunnel.hosts` of the gateway. */
  readonly tunnelHosts: readonly string[];
}

/** PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

export interface AgentSettings {
  readonly id: string;
  /** `host:port`. */
  readonly gateway: string;
  readonly gatewayAddresses: readonly string[];
  readonly serverName?: string;
  readonly key?: string;
  readonly certificate?: KeyPair;
  readonly image: string;
  readonly resources: Readonly<Record<string, unknown>>;
  readonly hostAliases: AgentAddon['hostAliases'];
}

/** Without settings the agent cannot be described now; an agent that exists stays as it is. */
export function agentSettings(
  cluster: Cluster,
  options: TenantAgentOptions,
  context: TenantAgentContext,
): { readonly settings?: AgentSettings; readonly findings: readonly Finding[] } {
  const { uplink } = options;
  const addon = cluster.controlPlane?.agent;
  const report = new Report(cluster);
  const apiHost = cluster.routes
    .find(({ kind }) => kind === 'api')
    ?.hosts.find(host => !isWildcard(host) && host !== '*');
  const shared = {
    ...imageOf(options, addon, context, report),
    resources: resourcesOf(options, addon),
    hostAliases: aliasesOf(addon, report),
    gatewayAddresses: addressesOf(options, addon, report),
  };
  if (addon?.isRunning === true) {
    report.add(
      'warning',
      'TcpProxyBeside',
      "Steward's tcp-proxy runs in this tenant beside the agent: both want port 6443 of the nodes and the endpoints of default/kubernetes",
      'Remove spec.addons.tcpProxy from the TenantControlPlane; set image, resources and addresses in the output tenantAgent',
    );
  }
  const id = cluster.id ?? cluster.name;
  if (!CLUSTER_ID.test(id)) {
    report.add('error', 'OutputRejected', 'The agent needs a cluster id', 'Give the cluster an id');
    return report.result();
  }
  const gateway = options.gateway ?? (apiHost === undefined ? undefined : `${apiHost}:${DEFAULT_PORT}`);
  if (gateway === undefined || (uplink === 'terminate' && apiHost === undefined)) {
    const text = 'The agent has no gateway to connect to: the cluster has no API host';
    report.add('error', 'HostMissing', text, 'Give the cluster an API host, or set gateway of tenantAgent');
    return report.result();
  }
  const serverName =
    uplink === 'terminate' ? apiHost : uplink === 'tunnel' ? tunnelName(gateway, context) : undefined;
  const isSigned = uplink !== 'terminate' && context.keyOf !== undefined;
  if (uplink === 'tunnel' && !isSigned) {
    report.add('error', 'OutputRejected', 'The uplink tunnel needs signed ids', 'Set identity.secretFile');
    return report.result();
  }
  const certificate = uplink === 'terminate' ? context.certificateOf?.(cluster) : undefined;
  // Whoever reads the Secret has reported why.
  if (uplink === 'terminate' && certificate === undefined) return report.result();
  return report.result({
    id,
    gateway,
    ...shared,
    ...(serverName !== undefined && { serverName }),
    ...(isSigned && { key: context.keyOf(id) }),
    ...(certificate !== undefined && { certificate }),
  });
}

class Report {
  readonly #cluster: Cluster;
  readonly #findings: Finding[] = [];

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  add(severity: Finding['severity'], code: FindingCode, text: string, fix: string): void {
    const { name: cluster, origin } = this.#cluster;
    this.#findings.push({ cluster, origin, severity, code, text, fix });
  }

  result(settings?: AgentSettings) {
    return { ...(settings && { settings }), findings: this.#findings };
  }
}

/** The SNI by which a gateway recognizes tunnels. The gateway's own name, where that is one. */
function tunnelName(gateway: string, { tunnelHosts }: TenantAgentContext): string | undefined {
  const host = gateway.slice(0, gateway.lastIndexOf(':'));
  const exact = tunnelHosts.filter(each => !isWildcard(each));
  return exact.includes(host) ? undefined : exact[0];
}

function imageOf(
  options: TenantAgentOptions,
  addon: AgentAddon | undefined,
  { version }: TenantAgentContext,
  report: Report,
): Pick<AgentSettings, 'image'> {
  const own = options.image ?? `causeway:${version}`;
  const given = addon?.image?.trim();
  if (!given) return { image: own };
  if (!STEWARD_IMAGE.test(given)) return { image: given };
  const text = `spec.addons.tcpProxy.image '${given}' is Steward's own tcp-proxy: the agent runs from '${own}'`;
  report.add('info', 'ImageReplaced', text, 'Set an image that contains causeway, or none');
  return { image: own };
}

/** Without any, the agent would be the first that a full node kills. */
const DEFAULT_RESOURCES = { requests: { cpu: '50m', memory: '128Mi' } } as const;

/** Only limits and requests: claims would name what the agent's Pod does not have. */
function resourcesOf(options: TenantAgentOptions, addon: AgentAddon | undefined): AgentSettings['resources'] {
  for (const { limits, requests } of [addon?.resources ?? {}, options.resources]) {
    if (limits !== undefined || requests !== undefined)
      return { ...(limits !== undefined && { limits }), ...(requests !== undefined && { requests }) };
  }
  return DEFAULT_RESOURCES;
}

/** One wrong entry would make the API server refuse the whole workload. */
function aliasesOf(addon: AgentAddon | undefined, report: Report): AgentSettings['hostAliases'] {
  return (addon?.hostAliases ?? []).slice(0, MAX_ALIASES).flatMap(({ ip, hostnames }) => {
    const address = parseIp(ip);
    const legal = hostnames.map(name => name.toLowerCase()).filter(name => ALIAS.test(name));
    const wrong = address === undefined ? [ip] : hostnames.filter(name => !ALIAS.test(name.toLowerCase()));
    if (wrong.length > 0) {
      const shown = wrong.slice(0, 3).map(each => JSON.stringify(each.slice(0, 80)));
      const text = `spec.addons.tcpProxy.hostAliases: ${shown.join(', ')} cannot be used and is left out`;
      report.add('warning', 'HostInvalid', text, 'Give each entry an IP address and host names');
    }
    return address === undefined || legal.length === 0
      ? []
      : [{ ip: formatIp(address, 0), hostnames: legal }];
  });
}

function addressesOf(
  { gatewayAddresses }: TenantAgentOptions,
  addon: AgentAddon | undefined,
  report: Report,
): readonly string[] {
  const endpoint = addon?.internalEndpoint?.trim();
  if (!endpoint) return [...new Set(gatewayAddresses)];
  // `address`, `address:port`, `[v6]` or `[v6]:port`.
  const [, v6, v4] = /^(?:\[([^\]]*)\](?::\d+)?|([^:]*)(?::\d+)?)$/.exec(endpoint) ?? [];
  const address = parseIp(v6 ?? v4 ?? endpoint);
  if (address !== undefined) return [...new Set([...gatewayAddresses, formatIp(address, 0)])];
  const text = `spec.addons.tcpProxy.internalEndpoint ${JSON.stringify(endpoint.slice(0, 80))} is no IP address and is not used`;
  report.add(
    'warning',
    'HostInvalid',
    text,
    'Give an address of the gateway that the nodes of the tenant reach',
  );
  return [...new Set(gatewayAddresses)];
}
