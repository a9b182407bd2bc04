// Does every host resolve to the gateway? Asks for each host in each family, and says what is wrong with the answer. The
// lookup is a parameter: `causeway dns check` asks one DNS server, `causeway doctor` what the machine uses.

import { randomBytes } from 'node:crypto';
import { ofType, type RecordType } from './dns-answer.ts';
import { zonesOf } from './zones.ts';

/** A move of the gateway takes as long as resolvers remember its old address. */
const MAX_TTL_SECONDS = 300;
/** Lookups at once: more would only queue up at the resolver. */
const CONCURRENCY = 32;

/** What a resolver says about one name and type, CNAMEs followed. */
export interface LookupAnswer {
  /** `no-data`: the name exists, without this type. `failed`: nobody knows; `why` has the reason. */
  readonly status: 'answered' | 'no-data' | 'no-name' | 'failed';
  readonly addresses: readonly string[];
  /** Seconds: the smallest on the way. */
  readonly ttl?: number;
  /** Names that CNAMEs lead to, in order. */
  readonly chain: readonly string[];
  readonly why?: string;
}

/** Never rejects. */
export type Lookup = (name: string, type: RecordType) => Promise<LookupAnswer>;

export const hostVerdicts = [
  'right',
  'missing',
  'elsewhere',
  'swallowed',
  'ttl-too-long',
  'unchecked',
] as const;
export type HostVerdict = (typeof hostVerdicts)[number];

export interface HostFinding {
  /** As in the file, `*.apps.example.com`, or a name that others of its hosts hide from a wildcard. */
  readonly host: string;
  /** The name that was looked up: of a wildcard, a random label below it. */
  readonly name: string;
  readonly type: RecordType;
  /** `ttl-too-long` leads to the gateway too. */
  readonly verdict: HostVerdict;
  /** The gateway's addresses of that family. Empty: there should be none. */
  readonly wanted: readonly string[];
  readonly found: readonly string[];
  readonly ttl?: number;
  readonly chain: readonly string[];
  /** A sentence without its subject, the host. */
  readonly text: string;
}

export interface CheckHostsOptions {
  readonly maxTtl?: number;
  /** A label that nobody has. */
  readonly randomLabel?: () => string;
  readonly onProgress?: (done: number, all: number) => void;
}

/** Whether a client that believes this answer does not reach the gateway. */
export function isWrong({ verdict }: Pick<HostFinding, 'verdict'>): boolean {
  return verdict === 'missing' || verdict === 'elsewhere' || verdict === 'swallowed';
}

/** For each host, both families. `*` is no name, and not among them. */
export async function checkHosts(
  hosts: readonly string[],
  addresses: readonly string[],
  lookup: Lookup,
  options: CheckHostsOptions = {},
): Promise<readonly HostFinding[]> {
  const { maxTtl = MAX_TTL_SECONDS, randomLabel = defaultLabel, onProgress } = options;
  const once = new Map<string, Promise<LookupAnswer>>();
  const check: Check = {
    maxTtl,
    label: randomLabel(),
    lookup(name, type) {
      const key = `${name} ${type}`;
      const known = once.get(key) ?? lookup(name, type);
      once.set(key, known);
      return known;
    },
  };
  const tasks = namesToAsk(hosts, check.label).flatMap(asked =>
    (['A', 'AAAA'] as const).map(type => ({ ...asked, type, wanted: ofType(addresses, type) })),
  );
  let done = 0;
  const findings = await mapBounded(tasks, async task => {
    const finding = await checkOne(task, check);
    onProgress?.(++done, tasks.length);
    return finding;
  });
  // If its wildcard is wrong too, that is the finding.
  return findings.filter(
    ({ verdict }, index) => !tasks[index].isHidden || verdict === 'swallowed' || verdict === 'elsewhere',
  );
}

interface Check {
  readonly maxTtl: number;
  readonly label: string;
  readonly lookup: Lookup;
}

interface Asked {
  readonly host: string;
  readonly name: string;
  /** A name of a wildcard that other hosts of the file hide from it, unless it has a record of its own. */
  readonly isHidden: boolean;
}

interface Task extends Asked {
  readonly type: RecordType;
  readonly wanted: readonly string[];
}

function namesToAsk(hosts: readonly string[], label: string): readonly Asked[] {
  return zonesOf(hosts).flatMap(({ names }) =>
    names.map(({ name, because }) => {
      if (because !== undefined) return { host: name, name, isHidden: true };
      const asked = name.startsWith('*.') ? `${label}${name.slice(1)}` : name;
      return { host: name, name: asked, isHidden: false };
    }),
  );
}

async function checkOne(task: Task, check: Check): Promise<HostFinding> {
  const { host, name, type, wanted } = task;
  const { status, addresses: found, ttl, chain, why } = await check.lookup(name, type);
  const finding = (verdict: HostVerdict, text: string): HostFinding => ({
    host,
    name,
    type,
    verdict,
    wanted,
    found,
    ...(ttl !== undefined && { ttl }),
    chain,
    text: chain.length === 0 ? text : `${text}, by CNAME to ${chain.join(', then ')}`,
  });
  if (status === 'failed')
    return wanted.length > 0
      ? finding('unchecked', why ?? 'no answer')
      : finding('right', 'is not answered for this type, and needs no record');
  const foreign = found.filter(address => !wanted.includes(address));
  if (foreign.length > 0) return finding('elsewhere', elsewhereText(foreign, found, wanted));
  const lacking = wanted.filter(address => !found.includes(address));
  if (lacking.length === 0) return rightOrLong(finding, wanted, ttl, check.maxTtl);
  if (found.length > 0) return finding('missing', `lacks ${lacking.join(', ')}`);
  const hidden = await hiddenFrom(task, check);
  if (hidden !== undefined)
    return finding(
      'swallowed',
      `has no ${type} record: ${hidden.wildcard} leads to the gateway, but ${hidden.nearer} exists and hides it`,
    );
  return finding('missing', status === 'no-data' ? `exists, without an ${type} record` : 'does not exist');
}

function elsewhereText(
  foreign: readonly string[],
  found: readonly string[],
  wanted: readonly string[],
): string {
  const there = `leads to ${foreign.join(', ')}`;
  if (wanted.length === 0) return `${there}, although the gateway has no address of that family: remove it`;
  return `${there}, ${foreign.length === found.length ? 'not' : 'not only'} to ${wanted.join(', ')}`;
}

function rightOrLong(
  finding: (verdict: HostVerdict, text: string) => HostFinding,
  wanted: readonly string[],
  ttl: number | undefined,
  maxTtl: number,
): HostFinding {
  if (wanted.length === 0) return finding('right', 'has no such record, as it should');
  if (ttl !== undefined && ttl > maxTtl)
    return finding('ttl-too-long', `leads to the gateway, with a TTL of ${ttl} s: use ${maxTtl} s or less`);
  return finding('right', 'leads to the gateway');
}

/**
 * A wildcard does not answer for a name that exists, nor for anything below it (RFC 4592). So if a wildcard above leads to
 * the gateway and this name does not, a name between them hides it.
 */
async function hiddenFrom(
  { host, name, type, wanted }: Task,
  check: Check,
): Promise<{ readonly wildcard: string; readonly nearer: string } | undefined> {
  let nearer = host.startsWith('*.') ? host.slice(2) : name;
  for (let above = parentOf(nearer); above !== ''; above = parentOf(above)) {
    const { addresses } = await check.lookup(`${check.label}.${above}`, type);
    if (addresses.length > 0)
      return wanted.every(address => addresses.includes(address))
        ? { wildcard: `*.${above}`, nearer }
        : undefined;
    nearer = above;
  }
  return undefined;
}

function parentOf(name: string): string {
  const dot = name.indexOf('.');
  return dot < 0 ? '' : name.slice(dot + 1);
}

function defaultLabel(): string {
  return `causeway-${randomBytes(6).toString('hex')}`;
}

/** In the order of the items. */
async function mapBounded<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  const waiting = items.entries();
  const work = async () => {
    for (const [index, item] of waiting) results[index] = await map(item);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return results;
}
