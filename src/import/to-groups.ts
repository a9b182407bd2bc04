// Which entries belong together: their hosts share a domain, their backends share a word, or they lead to the same pool.
// group-clusters.ts makes clusters of them.

import { nearest } from '../text/nearest.ts';
import { domainOf, kindOf, stemOf } from './cluster-keys.ts';
import type { Entry, ImportedListener, ImportedPool, ImportFinding } from './imported.ts';
import { placeText } from './imported.ts';

type Add = (finding: ImportFinding) => void;

export interface Group {
  entries: Entry[];
  domains: Set<string>;
  kinds: Set<string>;
}

export function toGroups(
  entries: readonly Entry[],
  listeners: readonly ImportedListener[],
  add: Add,
): Group[] {
  const groups = new Set<Group>();
  const byDomain = new Map<string, Group>();
  const byPool = new Map<ImportedPool, Group>();
  const join = (into: Group, from: Group) => {
    if (into === from) return into;
    // There may be more than fit on the stack as arguments.
    into.entries = into.entries.concat(from.entries);
    for (const domain of from.domains) {
      into.domains.add(domain);
      byDomain.set(domain, into);
    }
    for (const kind of from.kinds) into.kinds.add(kind);
    for (const { pool } of from.entries) byPool.set(pool, into);
    groups.delete(from);
    return into;
  };
  for (const entry of entries) {
    const domain = entry.host === undefined ? undefined : domainOf(entry.host);
    const known = domain === undefined ? undefined : byDomain.get(domain);
    const shared = entry.pool.redirect === true ? undefined : byPool.get(entry.pool);
    const group = known ?? shared ?? { entries: [], domains: new Set<string>(), kinds: new Set<string>() };
    groups.add(group);
    group.entries.push(entry);
    group.kinds.add(kindOf(entry, listeners[entry.listener]));
    if (domain !== undefined) {
      group.domains.add(domain);
      byDomain.set(domain, group);
    }
    byPool.set(entry.pool, group);
    if (known !== undefined && shared !== undefined) join(known, shared);
  }
  joinByStem([...groups], groups, join, add);
  return [...groups];
}

/** be_api_hub and be_ingress_hub are one cluster, even if their hosts disagree: that is a finding. */
function joinByStem(
  all: readonly Group[],
  groups: ReadonlySet<Group>,
  join: (into: Group, from: Group) => Group,
  add: Add,
): void {
  const byStem = new Map<string, Group>();
  for (const group of all) {
    if (!groups.has(group)) continue;
    // Ports for all hosts whose names say nothing are rather one cluster than several.
    const isNameless = group.entries.every(({ host = '*', id }) => host === '*' && id === undefined);
    const nameless = isNameless ? '' : undefined;
    for (const stem of new Set(group.entries.map(({ pool }) => stemOf(pool.name) ?? nameless))) {
      if (stem === undefined) continue;
      const other = byStem.get(stem);
      if (other === undefined || other === group || !groups.has(other) || !groups.has(group)) {
        byStem.set(stem, group);
        continue;
      }
      if (group.domains.size > 0 && other.domains.size > 0) {
        // Two API servers are two clusters, whatever their names.
        if ([...group.kinds].some(kind => other.kinds.has(kind)) || !areAlike(group, other)) continue;
        reportDisagreement(other, group, add);
      }
      join(other, group);
    }
  }
}

/** hub.linuxera.lab and hub-cluster.linuxera.lab: the same parent, and nearly the same label. */
function areAlike(one: Group, other: Group): boolean {
  const [[label, ...parent], [rival, ...parentOfRival]] = [
    [...one.domains][0].split('.'),
    [...other.domains][0].split('.'),
  ];
  if (parent.join('.') !== parentOfRival.join('.')) return false;
  return label.startsWith(rival) || rival.startsWith(label) || nearest(label, [rival]) !== undefined;
}

function reportDisagreement(one: Group, other: Group, add: Add): void {
  const [api, apps] = one.kinds.has('api') ? [one, other] : [other, one];
  const hostOf = ({ entries }: Group) => entries.find(({ host }) => host !== undefined) as Entry;
  const [a, b] = [hostOf(api), hostOf(apps)];
  const [domain] = api.domains;
  const [wrong] = apps.domains;
  const meant = b.host?.endsWith(wrong) ? b.host.slice(0, b.host.length - wrong.length) + domain : domain;
  add({
    place: b.place,
    kind: 'warning',
    text: `${b.host} and ${a.host} (${placeText(a.place)}) seem to be one cluster, but their domains differ: ${wrong} and ${domain}. If its names in DNS end in ${domain}, ${b.host} can never match: it should be ${meant}`,
  });
}
