// What an agent is to do, as its flags say it, judged: every mistake in one list, in the words of the flags.

import { isIP } from 'node:net';
import { needsTls, type UplinkKind, uplinkKinds } from '../cluster/cluster.ts';
import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import { isHostname, normalizeHost } from '../cluster/hostname.ts';
import type { EngineName } from '../gateway/io/open-reactor.ts';

export interface AgentOptions {
  readonly clusterId: string;
  readonly gateway: Place;
  /** IP literals that stand for the gateway's name. */
  readonly gatewayAddresses: readonly string[];
  readonly uplink: UplinkKind;
  readonly on: Place;
  /** SNI towards the gateway; of `tunnel` and `terminate`. */
  readonly serverName: string;
  readonly keyFile?: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly certKeyFile?: string;
  readonly localAddress?: string;
  readonly localDevice: string;
  readonly endpoints: boolean;
  readonly kubeconfig?: string;
  /** Written into the endpoints: one address, or one of each family. */
  readonly advertise: readonly string[];
  /** Where the leases of all agents of the cluster are. */
  readonly leaseNamespace: string;
  readonly metricsOn?: Place;
  readonly engine: EngineName | 'auto';
  /** Default: as many as a node's own traffic needs. */
  readonly workers?: number;
}

/** `host` is an IP literal without brackets or a name; '' in a listener's place for all addresses. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** The flags as they stand, by name without dashes. */
export interface AgentFlags {
  readonly [name: string]: string | boolean | readonly string[] | undefined;
}

export type ReadAgentOptions =
  | {
      readonly ok: true;
      readonly options: AgentOptions;
      /** Flags that this agent has no use for, in sentences. Files among them are not read. */
      readonly unused: readonly string[];
    }
  | { readonly ok: false; readonly mistakes: readonly string[] };

const engines = ['auto', 'epoll', 'net'] as const;
const MAX_WORKERS = 1024;
/** Every cluster has it. The same for all agents, in pods or not: those that do not see each other's leases would fight. */
const LEASE_NAMESPACE = 'kube-system';
/** RFC 1123, as Kubernetes has it for namespaces. */
const NAMESPACE = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** A wrapper or a shared environment may set these for every agent: to have no use for one is no mistake. */
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
  const wrong = (name: string, what: string, form: string = what) => {
    const value = flags[name];
    if (value === '') return;
    mistakes.push(
      value === undefined ? `--${name} is needed: ${what}` : `--${name} must be ${form}: ${String(value)}`,
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
    wrong('cluster-id', 'the id that the gateway knows the cluster by', CLUSTER_ID_WORDS);
  }
  const uplink = uplinkKinds.find(kind => kind === flags.uplink);
  if (uplink === undefined) wrong('uplink', `one of ${uplinkKinds.join(', ')}`);
  const gateway = readPlace(text('gateway'), false);
  if (gateway === undefined) wrong('gateway', "the gateway's HOST:PORT");
  const on = readPlace(text('on'), true);
  if (on === undefined) wrong('on', 'an address to listen on, IP:PORT or :PORT');
  const metricsOn = readPlace(text('metrics-on'), true);
  if (flags['metrics-on'] !== undefined && metricsOn === undefined) wrong('metrics-on', 'IP:PORT or :PORT');
  if (flags['local-address'] !== undefined && isIP(text('local-address') ?? '') === 0)
    wrong('local-address', 'an IP address');
  const advertised = [flags.advertise ?? []].flat().map(String);
  if (advertised.some(address => isIP(address) === 0)) wrong('advertise', 'IP addresses');
  const gatewayAddresses = [flags['gateway-address'] ?? []].flat().map(String);
  if (gatewayAddresses.some(address => isIP(address) === 0)) wrong('gateway-address', 'IP addresses');
  const serverName = normalizeHost(text('server-name') ?? gateway?.host ?? '');
  if (uplink !== undefined && needsTls({ kind: uplink }) && !isHostname(serverName)) {
    wrong(
      'server-name',
      "the name in the gateway's certificate, and the SNI on the way to it",
      'a host name, no address',
    );
  }
  if (uplink === 'tunnel' && text('key-file') === undefined) {
    mistakes.push('--key-file is needed: a tunnel carries signed ids only. causeway identity key makes one');
  }
  if (uplink === 'terminate' && (text('cert-file') === undefined || text('cert-key-file') === undefined)) {
    mistakes.push('--cert-file and --cert-key-file are needed: what the clients of terminate see');
  }
  const leaseNamespace = text('lease-namespace') ?? LEASE_NAMESPACE;
  if (!NAMESPACE.test(leaseNamespace)) wrong('lease-namespace', 'the name of a namespace');
  const engine = engines.find(known => known === (flags.engine ?? 'auto'));
  if (engine === undefined) wrong('engine', `one of ${engines.join(', ')}`);
  const workers = Number(text('workers') ?? 1);
  if (!Number.isInteger(workers) || workers < 1 || workers > MAX_WORKERS)
    wrong('workers', `a whole number from 1 to ${MAX_WORKERS}`);
  const isUnspecified = on === undefined || ['', '0.0.0.0', '::', 'localhost'].includes(on.host);
  const advertise = advertised.length > 0 || isUnspecified ? advertised : [on.host];
  if (flags.endpoints === true && advertise.length === 0) {
    mistakes.push('--advertise is needed: --on has no address that could be written into the endpoints');
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

/** By name, with a sentence for the log. */
function unusedFlags(flags: AgentFlags, uplink: UplinkKind): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    const uplinks = usedBy[name] ?? uplinkKinds;
    const other = usedWith[name];
    if (!uplinks.includes(uplink)) {
      found.set(name, `--${name} is not used by --uplink ${uplink}: it is for ${uplinks.join(', ')}`);
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
