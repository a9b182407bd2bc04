// Reads and validates the flags of an agent: reports every mistake, each by its flag.

import { isIP } from 'node:net';
import { needsTls, type UplinkKind, uplinkKinds } from '../cluster/cluster.ts';
import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import { isHostname, normalizeHost } from '../cluster/hostname.ts';
import type { EngineName } from '../gateway/io/open-reactor.ts';

export interface AgentOptions {
  readonly clusterId: string;
  readonly gateway: Place;
  /** IP literals to use instead of resolving the gateway's name. */
  readonly gatewayAddresses: readonly string[];
  readonly uplink: UplinkKind;
  readonly on: Place;
  /** SNI sent to the gateway; for `tunnel` and `terminate`. */
  readonly serverName: string;
  readonly keyFile?: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly certKeyFile?: string;
  readonly localAddress?: string;
  readonly localDevice: string;
  readonly endpoints: boolean;
  readonly kubeconfig?: string;
  /** Written into the endpoints: one address, or one per family. */
  readonly advertise: readonly string[];
  /** The namespace of all agents' leases in the cluster. */
  readonly leaseNamespace: string;
  readonly metricsOn?: Place;
  readonly engine: EngineName | 'auto';
  /** Absent means as many as the traffic of one node needs. */
  readonly workers?: number;
}

/** `host` is an IP literal without brackets, or a name; for a listener, '' means all addresses. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** The flags as given, by name without the leading dashes. */
export interface AgentFlags {
  readonly [name: string]: string | boolean | readonly string[] | undefined;
}

export type ReadAgentOptions =
  | {
      readonly ok: true;
      readonly options: AgentOptions;
      /** One sentence for each flag that this agent does not use. Unused files are not read. */
      readonly unused: readonly string[];
    }
  | { readonly ok: false; readonly mistakes: readonly string[] };

const engines = ['auto', 'epoll', 'net'] as const;
const MAX_WORKERS = 1024;
/** Exists in every cluster. Must be the same for all agents: agents that cannot see each other's leases would fight. */
const LEASE_NAMESPACE = 'kube-system';
/** An RFC 1123 label, as Kubernetes requires for namespaces. */
const NAMESPACE = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** A wrapper or a shared environment may set these for every agent, so an unused one is not a mistake. */
const usedBy: Readonly<Record<string, readonly UplinkKind[]>> = {
  'key-file': ['proxy', 'connect', 'tunnel'],
  'server-name': ['tunnel', 'terminate'],
  'ca-file': ['tunnel', 'terminate'],
  'cert-file': ['terminate'],
  'cert-key-file': ['terminate'],
};
const usedWith: Readonly<Record<string, string>> = {
  'local-device': 'local-address',
  kubeconfig: 'endpoints',
  'lease-namespace': 'endpoints',
  advertise: 'endpoints',
};
const PLACE = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):(\d{1,5})$/;

export function readAgentOptions(flags: AgentFlags): ReadAgentOptions {
  const mistakes: string[] = [];
  const reportFlag = (name: string, what: string, form: string = what) => {
    const value = flags[name];
    if (value === '') return;
    mistakes.push(
      value === undefined ? `--${name} is required: ${what}` : `--${name} must be ${form}: ${String(value)}`,
    );
  };
  const text = (name: string): string | undefined => {
    const value = flags[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  for (const [name, value] of Object.entries(flags)) {
    if (value === '') mistakes.push(`--${name} must not be empty`);
  }
  const clusterId = text('cluster-id') ?? '';
  if (!CLUSTER_ID.test(clusterId)) {
    reportFlag('cluster-id', "the cluster's id at the gateway", CLUSTER_ID_WORDS);
  }
  const uplink = uplinkKinds.find(kind => kind === flags.uplink);
  if (uplink === undefined) reportFlag('uplink', `one of ${uplinkKinds.join(', ')}`);
  const gateway = readPlace(text('gateway'), false);
  if (gateway === undefined) reportFlag('gateway', "the gateway's HOST:PORT");
  const on = readPlace(text('on'), true);
  if (on === undefined) reportFlag('on', 'an address to listen on, IP:PORT or :PORT');
  const metricsOn = readPlace(text('metrics-on'), true);
  if (flags['metrics-on'] !== undefined && metricsOn === undefined)
    reportFlag('metrics-on', 'IP:PORT or :PORT');
  if (flags['local-address'] !== undefined && isIP(text('local-address') ?? '') === 0)
    reportFlag('local-address', 'an IP address');
  const advertised = [flags.advertise ?? []].flat().map(String);
  if (advertised.some(address => isIP(address) === 0)) reportFlag('advertise', 'an IP address');
  const gatewayAddresses = [flags['gateway-address'] ?? []].flat().map(String);
  if (gatewayAddresses.some(address => isIP(address) === 0)) reportFlag('gateway-address', 'an IP address');
  const serverName = normalizeHost(text('server-name') ?? gateway?.host ?? '');
  if (uplink !== undefined && needsTls({ kind: uplink }) && !isHostname(serverName)) {
    reportFlag(
      'server-name',
      "the name in the gateway's certificate, and the SNI to send",
      'a host name, not an address',
    );
  }
  if (uplink === 'tunnel' && text('key-file') === undefined) {
    mistakes.push(
      '--key-file is required: a tunnel accepts only signed ids. Generate a key with causeway identity key',
    );
  }
  if (uplink === 'terminate' && (text('cert-file') === undefined || text('cert-key-file') === undefined)) {
    mistakes.push(
      '--cert-file and --cert-key-file are required: the certificate that clients of terminate see, and its key',
    );
  }
  const leaseNamespace = text('lease-namespace') ?? LEASE_NAMESPACE;
  if (!NAMESPACE.test(leaseNamespace)) reportFlag('lease-namespace', 'the name of a namespace');
  const engine = engines.find(known => known === (flags.engine ?? 'auto'));
  if (engine === undefined) reportFlag('engine', `one of ${engines.join(', ')}`);
  const workers = Number(text('workers') ?? 1);
  if (!Number.isInteger(workers) || workers < 1 || workers > MAX_WORKERS)
    reportFlag('workers', `a whole number from 1 to ${MAX_WORKERS}`);
  const isUnspecified = on === undefined || ['', '0.0.0.0', '::', 'localhost'].includes(on.host);
  const advertise = advertised.length > 0 || isUnspecified ? advertised : [on.host];
  if (flags.endpoints === true && advertise.length === 0) {
    mistakes.push('--advertise is required: --on has no address that can be an endpoint');
  }
  if (
    mistakes.length > 0 ||
    gateway === undefined ||
    on === undefined ||
    uplink === undefined ||
    engine === undefined
  )
    return { ok: false, mistakes };
  const unused = unusedFlags(flags, uplink);
  const used = (name: string) => (unused.has(name) ? undefined : text(name));
  return {
    ok: true,
    unused: [...unused.values()],
    options: {
      clusterId,
      gateway,
      gatewayAddresses,
      uplink,
      on,
      serverName,
      ...optional('keyFile', used('key-file')),
      ...optional('caFile', used('ca-file')),
      ...optional('certFile', used('cert-file')),
      ...optional('certKeyFile', used('cert-key-file')),
      ...optional('localAddress', text('local-address')),
      localDevice: text('local-device') ?? 'lo',
      endpoints: flags.endpoints === true,
      ...optional('kubeconfig', used('kubeconfig')),
      advertise,
      leaseNamespace,
      ...optional('metricsOn', metricsOn),
      engine,
      ...optional('workers', flags.workers === undefined ? undefined : workers),
    },
  };
}

/** A sentence for the log, by the name of the flag. */
function unusedFlags(flags: AgentFlags, uplink: UplinkKind): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    const uplinks = usedBy[name] ?? uplinkKinds;
    const other = usedWith[name];
    if (!uplinks.includes(uplink)) {
      found.set(name, `--${name} is not used by --uplink ${uplink}, only by ${uplinks.join(', ')}`);
    } else if (other !== undefined && !flags[other]) {
      found.set(name, `--${name} is not used without --${other}`);
    }
  }
  return found;
}

function readPlace(text: string | undefined, listens: boolean): Place | undefined {
  const match = PLACE.exec(text ?? '');
  if (match === null) return undefined;
  const [, ipv6, name = '', digits] = match;
  const port = Number(digits);
  const host = ipv6 ?? name;
  if (port > 65_535 || (!listens && port === 0)) return undefined;
  if (ipv6 !== undefined) return isIP(ipv6) === 6 ? { host, port } : undefined;
  if (isIP(host) !== 0) return { host, port };
  if (listens) return host === '' || host === 'localhost' ? { host, port } : undefined;
  return isHostname(normalizeHost(host)) ? { host: normalizeHost(host), port } : undefined;
}

function optional<Key extends string, Value>(key: Key, value: Value | undefined): { [key in Key]?: Value } {
  return value === undefined ? {} : ({ [key]: value } as { [key in Key]?: Value });
}
