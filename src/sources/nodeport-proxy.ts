// The annotations by which a Service asks Kubermatic's nodeport-proxy to be reachable: by SNI, with a host for each of its
// ports, or through a tunnel, by CONNECT. Pure. NodePorts are left to nodeport-proxy: they are no names.

import { readHost } from '../config/host.ts';
import { isRecord } from '../config/is-record.ts';
import { quote, show } from '../config/reading.ts';
import type { KeptService } from './kept-service.ts';
import type { Problem } from './service-finding.ts';

export const PROXY_ANNOTATIONS = 'nodeport-proxy.k8s.io/';
const EXPOSE = `${PROXY_ANNOTATIONS}expose`;
const MAPPING = `${PROXY_ANNOTATIONS}port-mapping`;
/** `true` is how NodePort was written first. */
const TYPES: ReadonlySet<string> = new Set(['NodePort', 'SNI', 'Tunneling', 'true', 'false', '']);
const EXAMPLE = `${MAPPING}: '{"secure": "api.example.com"}'`;
/** Of one Service. An annotation has room for thousands, which would slow down all others. */
const MAX_HOSTS = 100;
const SHOWN = 3;

export interface Exposure {
  /** Hosts by the name of their port. */
  readonly hosts: ReadonlyMap<string, string>;
  readonly isTunneled: boolean;
  readonly problems: readonly Problem[];
}

/** A Service that has not changed is the same object. */
const known = new WeakMap<KeptService, Exposure>();

/** `annotations` are those of nodeport-proxy, by their names after its prefix. */
export function exposureOf(service: KeptService): Exposure {
  const found = known.get(service) ?? readExposure(service);
  known.set(service, found);
  return found;
}

function readExposure({ annotations }: KeptService): Exposure {
  const problems: Problem[] = [];
  const types = (annotations.get('expose') ?? '').split(',', MAX_HOSTS).map(type => type.trim());
  const unknown = types.filter(type => !TYPES.has(type));
  if (unknown.length > 0) {
    const text = `${EXPOSE} has types that nodeport-proxy does not know: ${unknown.slice(0, SHOWN).map(quote).join(', ')}`;
    const fix = `Use a comma list of NodePort, SNI and Tunneling: ${EXPOSE}: "SNI,Tunneling"`;
    problems.push({ severity: 'warning', code: 'AnnotationInvalid', text, fix });
  }
  const isBySni = types.includes('SNI');
  const hosts = isBySni ? readMapping(annotations.get('port-mapping'), problems) : NO_HOSTS;
  return { hosts, isTunneled: types.includes('Tunneling'), problems };
}

const NO_HOSTS: ReadonlyMap<string, string> = new Map();

function readMapping(text: string | undefined, problems: Problem[]): ReadonlyMap<string, string> {
  const report = (code: Problem['code'], text: string) =>
    problems.push({ severity: 'error', code, text, fix: `Name a host for each port: ${EXAMPLE}` });
  if (text === undefined || text.trim() === '') {
    report('HostMissing', `${EXPOSE} has SNI, but ${MAPPING} is missing, so no host leads to the Service`);
    return NO_HOSTS;
  }
  const mapping = parsed(text);
  if (!isRecord(mapping)) {
    report(
      'AnnotationInvalid',
      `${MAPPING} must be a JSON map of port names to hosts: current value is ${quote(text)}`,
    );
    return NO_HOSTS;
  }
  const hosts = new Map<string, string>();
  const faults: string[] = [];
  const entries = Object.entries(mapping);
  for (const [port, value] of entries.slice(0, MAX_HOSTS)) {
    const reading = readHost(value);
    if ('fault' in reading) faults.push(`the host of port ${quote(port)} ${reading.fault}`);
    else if ([...hosts.values()].includes(reading.value))
      faults.push(`port ${quote(port)} has the host of another port, ${show(reading.value)}`);
    else hosts.set(port, reading.value);
  }
  if (faults.length > 0) {
    const more = faults.length > SHOWN ? `; and ${faults.length - SHOWN} more` : '';
    report('HostInvalid', `${MAPPING}: ${faults.slice(0, SHOWN).join('; ')}${more}`);
  }
  if (entries.length > MAX_HOSTS)
    report('HostInvalid', `${MAPPING} has ${entries.length} ports: only the first ${MAX_HOSTS} are used`);
  if (entries.length === 0) report('HostMissing', `${MAPPING} is empty, so no host leads to the Service`);
  return hosts;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
