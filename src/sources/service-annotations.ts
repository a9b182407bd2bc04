// The annotations by which a Service asks to be reachable. Tenants write them: whatever is wrong becomes a finding that
// says what is allowed, and the rest is taken as it is meant.

import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import { maskedCidr, readCidr } from '../config/address.ts';
import { readHostPatternOrAll } from '../config/host.ts';
import { readClusterName, readRouteKind } from '../config/names.ts';
import { mustBe, quote, type Reading } from '../config/reading.ts';
import type { KeptService } from './kept-service.ts';
import type { Problem } from './service-finding.ts';
import type { PortChoice } from './service-lookup.ts';

/** The values that could be read; a bad one is absent. */
export interface ServiceClaim {
  readonly cluster: string;
  readonly route: string;
  readonly id?: string;
  readonly hosts: readonly string[];
  readonly port: PortChoice;
  /** Absent: anyone. */
  readonly allow?: readonly string[];
  readonly isPaused: boolean;
}

export interface ReadAnnotations {
  /** Absent where its cluster or its route is unknown. */
  readonly claim?: ServiceClaim;
  readonly problems: readonly Problem[];
}

/**
 * Entries of one list; further ones are ignored. An annotation has room for tens of thousands, which would slow down
 * every other tenant.
 */
const MAX_ENTRIES = 1000;
/** Bad entries that a finding shows. */
const MAX_SHOWN = 3;

/** Only these Services are ours. */
export function isExposed({ annotations }: KeptService): boolean {
  return annotations.has('hosts') || annotations.has('id');
}

export function readAnnotations({ namespace, name, annotations }: KeptService): ReadAnnotations {
  const problems: Problem[] = [];
  const given = (key: string) => annotations.get(key)?.trim();
  const read = (key: string, reading: Reading<string>, fix: string): string | undefined => {
    if ('value' in reading) return reading.value;
    problems.push(invalid(`causeway.dev/${key} ${reading.fault}`, fix));
    return undefined;
  };

  const cluster = read(
    'cluster',
    readClusterName(given('cluster') ?? `${namespace}.${name}`),
    `Correct it, or remove it: the cluster is then called '${namespace}.${name}'`,
  );
  const route = read(
    'route',
    readRouteKind(given('route') ?? 'api'),
    "Correct it, or remove it: the route is then 'api'",
  );
  if (cluster === undefined || route === undefined) return { problems };

  const idText = given('id');
  const id =
    idText === undefined ? undefined : read('id', readId(idText), 'Correct it, or remove the annotation');
  const hosts = readHosts(given('hosts'), problems);
  const isBad = problems.some(({ code }) => code === 'HostInvalid');
  if (hosts.length === 0 && !isBad) problems.push(...hostMissing(annotations.has('hosts'), route, id));
  const allow = readAllow(given('allow'), problems);
  const claim = {
    cluster,
    route,
    ...(id !== undefined && { id }),
    hosts,
    port: readPort(given('port')),
    ...(allow !== undefined && { allow }),
    isPaused: given('paused') === 'true',
  };
  return { claim, problems };
}

function readId(text: string): Reading<string> {
  return CLUSTER_ID.test(text) ? { value: text } : { fault: mustBe(CLUSTER_ID_WORDS, text) };
}

/** Kubernetes has no port names of digits only. */
function readPort(text: string | undefined): PortChoice {
  if (text === undefined || text === '') return undefined;
  return /^\d{1,5}$/.test(text) ? Number(text) : text;
}

function readHosts(text: string | undefined, problems: Problem[]): readonly string[] {
  const { values, faults, ignored } = readList(text ?? '', readHostPatternOrAll);
  const fix = 'Write a comma list of host names: causeway.dev/hosts: "api.example.com,*.apps.example.com"';
  if (faults.length > 0) {
    problems.push({ severity: 'error', code: 'HostInvalid', text: describe('hosts', faults), fix });
  }
  if (ignored > 0) {
    const text = `causeway.dev/hosts has more than ${MAX_ENTRIES} hosts: the last ${ignored} are ignored`;
    const fix = 'Use a wildcard such as "*.apps.example.com", or several Services';
    problems.push({ severity: 'error', code: 'HostInvalid', text, fix });
  }
  return values;
}

/** A bad entry is left out, which can only narrow the list; an empty list allows nobody, as in the file. */
function readAllow(text: string | undefined, problems: Problem[]): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const { values, faults, ignored } = readList(text, readCidr);
  const fix = 'Write a comma list of CIDRs: causeway.dev/allow: "10.0.0.0/8,fd00::/8"';
  if (faults.length > 0) problems.push(invalid(describe('allow', faults), fix));
  if (ignored > 0) {
    const text = `causeway.dev/allow has more than ${MAX_ENTRIES} entries: the last ${ignored} are ignored`;
    problems.push(invalid(text, 'Combine them into wider CIDRs'));
  }
  if (values.length === 0) {
    problems.push(
      invalid('causeway.dev/allow has no valid entry: nobody is allowed', `${fix}; for anyone, remove it`),
    );
  }
  const masked = values.find(each => maskedCidr(each) !== undefined);
  if (masked !== undefined) {
    const text = `causeway.dev/allow: ${quote(masked)} means ${maskedCidr(masked)}`;
    problems.push({ ...invalid(text, 'Write the network, or a single address'), severity: 'warning' });
  }
  return values;
}

/** A comma list: each value once, one fault for each bad entry. */
function readList(text: string, read: (entry: string) => Reading<string>) {
  const entries = text
    .split(',')
    .map(entry => entry.trim())
    .filter(entry => entry !== '');
  const values = new Set<string>();
  const faults: { readonly entry: string; readonly fault: string }[] = [];
  for (const entry of entries.slice(0, MAX_ENTRIES)) {
    const reading = read(entry);
    if ('value' in reading) values.add(reading.value);
    else faults.push({ entry, fault: reading.fault });
  }
  return { values: [...values], faults, ignored: Math.max(entries.length - MAX_ENTRIES, 0) };
}

/** One finding for all bad entries of a list, so that a long list does not become thousands of Events. */
function describe(
  key: string,
  faults: readonly { readonly entry: string; readonly fault: string }[],
): string {
  const [first, ...others] = faults;
  const shown = others.slice(0, MAX_SHOWN - 1).map(({ entry }) => quote(entry));
  const left = others.length - shown.length;
  const more = [...shown, ...(left > 0 ? [`${left} more`] : [])];
  const rest = more.length === 0 ? '' : `; also invalid: ${more.join(', ')}`;
  return `Each entry of causeway.dev/${key} ${first.fault}${rest}`;
}

/** An id leads to the route `api` of its cluster: then no host is needed. */
function hostMissing(isListed: boolean, route: string, id: string | undefined): Problem[] {
  const isReachable = route === 'api' && id !== undefined;
  if (isReachable && !isListed) return [];
  const state = isListed ? 'has no host' : 'is missing';
  const text = `causeway.dev/hosts ${state}: ${isReachable ? 'only the id leads' : 'no host or id leads'} to the route '${route}'`;
  const fix = 'Add the hosts of this route: causeway.dev/hosts: "api.example.com"';
  return [{ severity: isReachable ? 'warning' : 'error', code: 'HostMissing', text, fix }];
}

function invalid(text: string, fix: string): Problem {
  return { severity: 'error', code: 'AnnotationInvalid', text, fix };
}
