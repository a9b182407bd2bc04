// Rules of which the first that matches a host decides → entries, for formats whose rules are about hosts alone. Asks the
// rules about every host that they name and about labels under every wildcard, so that rules which never apply are found.

import { isWildcard } from '../cluster/hostname.ts';
import { type HostSet, isAmong } from './host-set.ts';
import type { Entry, ImportedPool, ImportFinding, Place, Protocol } from './imported.ts';
import { placeText } from './imported.ts';

const LABELS = ['a', 'sample-7', 'zz9'];

export interface HostRule {
  readonly place: Place;
  /** As written, for messages. */
  readonly text: string;
  /** Absent: every host, and none. */
  readonly set?: HostSet;
  /** Absent: refused, or not carried over. */
  readonly pool?: ImportedPool;
  readonly allow?: readonly string[];
}

export function firstMatch(
  rules: readonly HostRule[],
  protocol: Protocol,
  listener: number,
  add: (finding: ImportFinding) => void,
): Entry[] {
  const hosts = new Set(rules.flatMap(({ set }) => set?.hosts ?? []));
  const ruleFor = indexRules(rules);
  const used = new Set<HostRule>();
  const entries: Entry[] = [];
  for (const host of hosts) {
    const samples = isWildcard(host) ? LABELS.map(label => `${label}${host.slice(1)}`) : [host];
    const [rule, ...others] = samples
      .filter(sample => samples.length === 1 || !hosts.has(sample))
      .map(ruleFor);
    if (rule === undefined || others.some(other => other?.pool !== rule.pool)) continue;
    used.add(rule);
    if (rule.set !== undefined && rule.pool !== undefined) entries.push(entryOf(rule, rule.pool, host));
  }
  for (const rule of rules) {
    if (rule.set === undefined) {
      if (rule.pool !== undefined) entries.push(entryOf(rule, rule.pool, '*'));
      continue;
    }
    const { set } = rule;
    if (set.oddities.length > 0)
      add({
        place: rule.place,
        kind: 'warning',
        text: `'${rule.text}' ${set.oddities.join('; it ')}`,
        differsFor: host => set.has(host) !== isAmong(set.hosts, host),
      });
    if (set.hosts.length === 0)
      add({
        place: rule.place,
        kind: 'not carried over',
        text: `'${rule.text}': its hosts are neither names nor *.x.y; name them in hosts`,
        differsFor: set.has,
      });
    else if (!used.has(rule)) reportShadowed(rule, ruleFor(set.hosts[0].replace(/^\*/, LABELS[0])), add);
  }
  return entries;

  function entryOf({ place, allow }: HostRule, pool: ImportedPool, host: string): Entry {
    return { host, protocol, listener, pool, place, ...(allow !== undefined && { allow }) };
  }
}

/** A map may have a hundred thousand names: those are looked up, and only the other rules are asked one by one. */
function indexRules(rules: readonly HostRule[]): (host: string) => HostRule | undefined {
  const exact = new Map<string, number>();
  const others: number[] = [];
  for (const [index, { set }] of rules.entries()) {
    if (set?.exact === undefined) others.push(index);
    else if (!exact.has(set.exact)) exact.set(set.exact, index);
  }
  return host => {
    const named = exact.get(host) ?? rules.length;
    const other = others.find(index => index < named && (rules[index].set?.has(host) ?? true));
    return rules[other ?? named];
  };
}

function reportShadowed(
  rule: HostRule,
  taker: HostRule | undefined,
  add: (finding: ImportFinding) => void,
): void {
  if (taker === undefined || taker === rule) return;
  add({
    place: rule.place,
    kind: 'warning',
    text: `'${rule.text}' is shadowed by '${taker.text}' at ${placeText(taker.place)}: remove one of them`,
  });
}
