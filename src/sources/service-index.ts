// Services with their EndpointSlices, by Service, and the backends that follow from them. Does no I/O:
// service-backends.ts brings the objects.

import { isDeepStrictEqual } from 'node:util';
import type { Backend } from '../cluster/cluster.ts';
import { formatHostPort } from '../config/address.ts';
import { formatIp, parseIp } from '../wire/ip-address.ts';
import { choosePort, type KeptService, type TcpPort } from './kept-service.ts';
import type { KeptSlice } from './kept-slice.ts';
import type { FoundService, PortChoice, ServiceLookup } from './service-lookup.ts';

type Via = 'endpoints' | 'clusterIP';

/** Another object after each change of the Service or its slices, so that callers can compare references. */
export interface IndexedService {
  /** Absent where there are only slices. */
  readonly service: KeptService | undefined;
}

interface Entry extends IndexedService {
  service: KeptService | undefined;
  readonly slices: Map<string, KeptSlice>;
  /** Answers by port and `via`. */
  readonly found: Map<string, FoundService>;
  /** Those before the last change, to be given again where the change does not matter. */
  readonly before: ReadonlyMap<string, FoundService> | undefined;
}

const NO_SERVICE: FoundService = { kind: 'no-service' };
const EXTERNAL_NAME: FoundService = { kind: 'unusable', why: 'its type is ExternalName' };
const HEADLESS: FoundService = {
  kind: 'unusable',
  why: 'it is headless (clusterIP: None), which only a source with via: endpoints can use',
};
const NO_CLUSTER_IP: FoundService = { kind: 'unusable', why: 'it has no ClusterIP' };
/** Of one Service, as Kubernetes' own Endpoints are limited: each is checked and counted, and all tenants share that. */
const MAX_BACKENDS = 1000;
/** A Service is asked for few ports at a time; a tenant may ask for one after the other. */
const MAX_FOUND = 16;

export class ServiceIndex implements ServiceLookup {
  readonly #entries = new Map<string, Entry>();
  readonly #slices = new Map<string, KeptSlice>();
  #services = 0;

  /** By `<namespace>/<name>`. */
  get services(): ReadonlyMap<string, IndexedService> {
    return this.#entries;
  }

  /** Takes over what has changed since the last call, by reference. Both maps are by `<namespace>/<name>`. */
  update(services: ReadonlyMap<string, KeptService>, slices: ReadonlyMap<string, KeptSlice>): void {
    const fresh = new Set<string>();
    for (const [key, service] of services) {
      const before = this.#entries.get(key)?.service;
      if (before === service) continue;
      if (before === undefined) this.#services++;
      this.#fresh(key, fresh).service = service;
    }
    if (this.#services > services.size) {
      for (const [key, { service }] of this.#entries) {
        if (service !== undefined && !services.has(key)) this.#fresh(key, fresh).service = undefined;
      }
      this.#services = services.size;
    }
    for (const [key, slice] of slices) {
      if (this.#slices.get(key) !== slice) this.#replaceSlice(key, slice, fresh);
    }
    if (this.#slices.size > slices.size) {
      for (const key of this.#slices.keys()) {
        if (!slices.has(key)) this.#replaceSlice(key, undefined, fresh);
      }
    }
    for (const key of fresh) {
      const entry = this.#entries.get(key);
      if (entry?.service === undefined && entry?.slices.size === 0) this.#entries.delete(key);
    }
  }

  find(namespace: string, name: string, port: PortChoice, via: Via): FoundService {
    const entry = this.#entries.get(`${namespace}/${name}`);
    if (entry?.service === undefined) return NO_SERVICE;
    const choice = `${via} ${typeof port} ${port}`;
    const known = entry.found.get(choice);
    if (known !== undefined) return known;
    const now = found(entry.service, entry.slices.values(), port, via);
    // Many changes concern labels, the status or a heartbeat.
    const before = entry.before?.get(choice);
    const result = before !== undefined && isDeepStrictEqual(now, before) ? before : now;
    if (entry.found.size >= MAX_FOUND) entry.found.clear();
    entry.found.set(choice, result);
    return result;
  }

  #replaceSlice(key: string, slice: KeptSlice | undefined, fresh: Set<string>): void {
    const before = this.#slices.get(key)?.service;
    if (before !== undefined && before !== slice?.service) this.#fresh(before, fresh).slices.delete(key);
    if (slice === undefined) this.#slices.delete(key);
    else this.#slices.set(key, slice);
    if (slice?.service !== undefined) this.#fresh(slice.service, fresh).slices.set(key, slice);
  }

  /** The entry to change: replaced once per update. */
  #fresh(key: string, fresh: Set<string>): Entry {
    const old = this.#entries.get(key);
    if (old !== undefined && fresh.has(key)) return old;
    const entry: Entry = {
      service: old?.service,
      slices: old?.slices ?? new Map(),
      found: new Map(),
      before: old === undefined || old.found.size > 0 ? old?.found : old.before,
    };
    this.#entries.set(key, entry);
    fresh.add(key);
    return entry;
  }
}

function found(
  service: KeptService,
  slices: Iterable<KeptSlice>,
  choice: PortChoice,
  via: Via,
): FoundService {
  const { namespace, name, clusterIPs, ports } = service;
  // Whoever controls the name could resolve it to any address.
  if (service.isExternalName) return EXTERNAL_NAME;
  const port = choosePort(ports, choice);
  if (port === undefined) return { kind: 'no-port', ports: ports.map(describePort) };
  if (via === 'clusterIP' && clusterIPs.includes('None')) return HEADLESS;
  const backends = via === 'clusterIP' ? clusterIpBackends(clusterIPs, port) : endpointBackends(slices, port);
  if (via === 'clusterIP' && backends.length === 0) return NO_CLUSTER_IP;
  return {
    kind: 'found',
    service: { namespace, name, port: port.port },
    backends: backends.slice(0, MAX_BACKENDS),
    leftOut: Math.max(0, backends.length - MAX_BACKENDS),
  };
}

function clusterIpBackends(clusterIPs: readonly string[], { port }: TcpPort): readonly Backend[] {
  const ips = clusterIPs.map(ip => parseIp(ip)).filter(ip => ip !== undefined);
  return backendsOf(ips.map(ip => ({ host: formatIp(ip, 0), port })));
}

/** Endpoints that are not ready count only where none is: they may still serve better than nobody. */
function endpointBackends(slices: Iterable<KeptSlice>, { name }: TcpPort): readonly Backend[] {
  const ready: Omit<Backend, 'text'>[] = [];
  const notReady: Omit<Backend, 'text'>[] = [];
  for (const slice of slices) {
    for (const { name: portName, port } of slice.ports) {
      if (portName !== name) continue;
      for (const host of slice.ready) ready.push({ host, port });
      for (const host of slice.notReady) notReady.push({ host, port });
    }
  }
  return backendsOf(ready.length > 0 ? ready : notReady);
}

/** Each once, sorted by text. An endpoint that moves between slices is in both for a while. */
function backendsOf(addresses: readonly Omit<Backend, 'text'>[]): readonly Backend[] {
  const backends = new Map<string, Backend>();
  for (const { host, port } of addresses) {
    const text = formatHostPort(host, port);
    backends.set(text, { text, host, port });
  }
  return [...backends.values()].toSorted((a, b) => (a.text < b.text ? -1 : 1));
}

function describePort({ name, port }: TcpPort): string {
  return name === '' ? String(port) : `${name} (${port})`;
}
