// What sources keep of a Service: 10,000 of them in full would take hundreds of megabytes. Services are written by
// tenants, so any field may be missing or of the wrong type.

import { isRecord } from '../config/is-record.ts';
import type { Service } from '../kube/kube-object.ts';
import type { PortChoice } from './service-lookup.ts';

export interface KeptService {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly createdAt: string;
  readonly isExternalName: boolean;
  /** `None` for a headless Service. */
  readonly clusterIPs: readonly string[];
  readonly ports: readonly TcpPort[];
  /** Only those with the prefix that the source reads, by their names after it. */
  readonly annotations: ReadonlyMap<string, string>;
}

/** Ports of other protocols are left out: the gateway has only TCP. */
export interface TcpPort {
  /** Empty where a Service has only one. */
  readonly name: string;
  readonly port: number;
}

/** Which port is chosen where nobody says: the first of these names that a Service with several ports has. */
const USUAL_PORTS = ['https', 'api'];
const ANNOTATION_PREFIX = 'causeway.dev/';
/** What we write ourselves is no input. */
const OUTPUT_ANNOTATIONS: ReadonlySet<string> = new Set(['status']);
const MAX_PORT = 65_535;
const NO_ANNOTATIONS: ReadonlyMap<string, string> = new Map();

export function keepService({ metadata, spec }: Service, prefix = ANNOTATION_PREFIX): KeptService {
  const { type, clusterIP, clusterIPs, ports } = recordOf(spec);
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid ?? '',
    createdAt: metadata.creationTimestamp ?? '',
    isExternalName: type === 'ExternalName',
    clusterIPs: listOf(clusterIPs ?? [clusterIP]).filter(
      ip => typeof ip === 'string' && ip !== '',
    ) as string[],
    ports: tcpPorts(ports),
    annotations: annotationsWith(prefix, metadata.annotations),
  };
}

/** Of a Service or an EndpointSlice; those without a port number, which slices may have, are left out. */
export function tcpPorts(ports: unknown): readonly TcpPort[] {
  return listOf(ports).flatMap(each => {
    const { name, port, protocol } = recordOf(each);
    const isTcp = protocol === undefined || protocol === null || protocol === 'TCP';
    const isPort = Number.isInteger(port) && (port as number) > 0 && (port as number) <= MAX_PORT;
    if (!isTcp || !isPort) return [];
    return [{ name: typeof name === 'string' ? name : '', port: port as number }];
  });
}

export function choosePort(ports: readonly TcpPort[], choice: PortChoice): TcpPort | undefined {
  if (typeof choice === 'number') return ports.find(({ port }) => port === choice);
  if (choice !== undefined) return ports.find(({ name }) => name === choice);
  if (ports.length === 1) return ports[0];
  for (const usual of USUAL_PORTS) {
    const port = ports.find(({ name }) => name === usual);
    if (port !== undefined) return port;
  }
  return undefined;
}

export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function annotationsWith(prefix: string, annotations: unknown): ReadonlyMap<string, string> {
  const own = new Map<string, string>();
  for (const [key, value] of Object.entries(recordOf(annotations))) {
    if (typeof value !== 'string' || !key.startsWith(prefix)) continue;
    const name = key.slice(prefix.length);
    if (!OUTPUT_ANNOTATIONS.has(name)) own.set(name, value);
  }
  // Most Services have none.
  return own.size === 0 ? NO_ANNOTATIONS : own;
}
