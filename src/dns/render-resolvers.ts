// `causeway render dns` for resolvers of a network or a machine: dnsmasq and Pi-hole, CoreDNS, a hosts file.

import { type DnsAnswers, ofType } from './dns-answer.ts';
import { type DnsName, hostsOf, type Zone } from './zones.ts';

/** For /etc/dnsmasq.d. `address` answers for everything below a name, and for the name itself. */
export function renderDnsmasq({ zones, addresses, ttl }: DnsAnswers): string {
  const lines = zones.flatMap(zone =>
    hostsOf(zone).flatMap(({ name }) => {
      // `local`: what has no address of that family is not asked elsewhere.
      if (!name.startsWith('*.'))
        return [`local=/${name}/`, ...addresses.map(address => `host-record=${name},${address},${ttl}`)];
      const parent = name.slice(2);
      return [`local=/${parent}/`, ...addresses.map(address => `address=/${parent}/${address}`)];
    }),
  );
  return `${lines.join('\n')}\n`;
}

/** A server block for each zone, which answers for nothing else in it. */
export function renderCoredns(answers: DnsAnswers): string {
  return answers.zones.map(zone => serverBlock(zone, answers)).join('\n');
}

function serverBlock(zone: Zone, { addresses, ttl, serial }: DnsAnswers): string {
  const hosts = hostsOf(zone).map(({ name }) => name);
  const match = matchOf(hosts.map(pattern));
  const record = (type: string, data: string) => `"${zone.name}. ${ttl} IN ${type} ${data}"`;
  const soa = record('SOA', `ns.${zone.name}. hostmaster.${zone.name}. ${serial} 3600 900 604800 ${ttl}`);
  const families = (['A', 'AAAA'] as const).flatMap(type => {
    const own = ofType(addresses, type);
    if (own.length === 0) return [];
    const lines = own.map(address => `        answer "{{ .Name }} ${ttl} IN ${type} ${address}"`);
    return [`    template IN ${type} {`, `        ${match}`, ...lines, '        fallthrough', '    }'];
  });
  return `${zone.name}:53 {
${families.join('\n')}
    template IN SOA {
        ${matchOf([pattern(zone.name)])}
        answer ${soa}
        fallthrough
    }
    template IN NS {
        ${matchOf([pattern(zone.name)])}
        answer ${record('NS', `ns.${zone.name}.`)}
        fallthrough
    }
    # The names exist, without records of other types; and so do names that others are below.
    template ANY ANY {
        ${matchOf([...hosts, ...namesBetween(zone.name, hosts)].map(pattern))}
        rcode NOERROR
        authority ${soa}
        fallthrough
    }
    template ANY ANY {
        rcode NXDOMAIN
        authority ${soa}
    }
}
`;
}

function matchOf(patterns: readonly string[]): string {
  return `match ^(${patterns.join('|')})\\.$`;
}

/** The zone, and what is between it and its hosts: a resolver that asks for those first must not hear that nothing is there. */
function namesBetween(zone: string, hosts: readonly string[]): readonly string[] {
  const names = new Set([zone]);
  for (const host of hosts) {
    let name = host;
    while (name !== zone && name.includes('.')) {
      name = name.slice(name.indexOf('.') + 1);
      names.add(name);
    }
  }
  return [...names].filter(name => !hosts.includes(name));
}

/** Of one name. A wildcard of the gateway stands for exactly one label. */
function pattern(name: string): string {
  return name.replaceAll('.', '\\.').replace(/^\*/, '[^.]+');
}

/** A hosts file knows no wildcards: they become comments. */
export function renderHosts({ zones, addresses }: DnsAnswers): string {
  const names = zones.flatMap(hostsOf);
  const isWildcard = ({ name }: DnsName) => name.startsWith('*.');
  const lines = [
    ...addresses.flatMap(address =>
      names.filter(each => !isWildcard(each)).map(({ name }) => `${address} ${name}`),
    ),
    ...names
      .filter(isWildcard)
      .map(({ name }) => `# ${name}: a hosts file has no wildcards; write each name that you use`),
  ];
  return `${lines.join('\n')}\n`;
}
