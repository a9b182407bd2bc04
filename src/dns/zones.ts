// The DNS names of a configuration, in zones: what a DNS server must answer so that every host leads to the gateway.

/** A name to answer for; `*.apps.example.com` is a wildcard. */
export interface DnsName {
  readonly name: string;
  /** Relative to the zone: `*.apps`, or `@` for the zone itself. */
  readonly owner: string;
  /** Why it is here although no route has it as a host. */
  readonly because?: string;
}

export interface Zone {
  readonly name: string;
  readonly names: readonly DnsName[];
}

/** The names that routes have as hosts, for servers that know no hidden names. */
export function hostsOf({ names }: Zone): readonly DnsName[] {
  return names.filter(({ because }) => because === undefined);
}

/**
 * Hosts, exact and `*.`, in the fewest zones that do not reach beyond them: hosts with the same last two labels share a
 * zone, which is their longest common suffix. `"*"` is no name. Zones that are given have the hosts below them, and exist
 * without any.
 */
export function zonesOf(hosts: Iterable<string>, given: readonly string[] = []): readonly Zone[] {
  const unique = [...new Set(hosts)].filter(host => host !== '*');
  const nearestFirst = given.toSorted((a, b) => b.length - a.length);
  const zoneAround = (host: string) =>
    nearestFirst.find(zone => withoutStar(host) === zone || host.endsWith(`.${zone}`));
  const others = unique.filter(host => zoneAround(host) === undefined);
  const groups = Map.groupBy(others, host => withoutStar(host).split('.').slice(-2).join('.'));
  const found = [...groups.values()].map(group => zoneOf(group, commonSuffix(group.map(parentOf))));
  const named = [...new Set(given)].map(zone =>
    zoneOf(
      unique.filter(host => zoneAround(host) === zone),
      zone,
    ),
  );
  return [...found, ...named].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function zoneOf(hosts: readonly string[], name: string): Zone {
  const names = [...hosts.map(host => ({ name: host })), ...hiddenNames(hosts)]
    .map(each => ({ order: reversed(each.name), each: { ...each, owner: ownerIn(name, each.name) } }))
    .toSorted((a, b) => (a.order < b.order ? -1 : 1))
    .map(({ each }) => each);
  return { name, names };
}

/**
 * A wildcard does not answer for names that exist (RFC 4592), and a name exists if another one below it does: with the
 * host `a.b.apps.lab`, `*.apps.lab` no longer answers for `b.apps.lab`, which then needs a record of its own.
 */
function hiddenNames(
  hosts: readonly string[],
): readonly { readonly name: string; readonly because: string }[] {
  const all = new Set(hosts);
  const hidden = new Map<string, string>();
  for (const host of hosts) {
    const below = withoutStar(host);
    for (let dot = below.indexOf('.'), at = 0; dot >= 0; at = dot + 1, dot = below.indexOf('.', at)) {
      const wildcard = `*.${below.slice(dot + 1)}`;
      const name = below.slice(at);
      if (!all.has(wildcard) || all.has(name) || name === host) continue;
      hidden.set(name, `${host} hides it from ${wildcard}`);
    }
  }
  return [...hidden].map(([name, because]) => ({ name, because }));
}

/** What a zone must at least contain: the host without its first label. */
function parentOf(host: string): string {
  if (host.startsWith('*.')) return host.slice(2);
  const labels = host.split('.');
  return labels.length > 2 ? labels.slice(1).join('.') : host;
}

function commonSuffix(names: readonly string[]): string {
  const [first, ...rest] = names.map(name => name.split('.').toReversed());
  let length = first.length;
  for (const labels of rest) {
    let same = 0;
    while (same < length && labels[same] === first[same]) same++;
    length = same;
  }
  return first.slice(0, length).toReversed().join('.');
}

function ownerIn(zone: string, name: string): string {
  return name === zone ? '@' : name.slice(0, -zone.length - 1);
}

function withoutStar(host: string): string {
  return host.startsWith('*.') ? host.slice(2) : host;
}

/** `lab.apps.*`: so that names below each other are next to each other. */
function reversed(name: string): string {
  return name.split('.').toReversed().join('.');
}
