// `causeway render dns` for resolvers of a network or a machine: dnsmasq and Pi-hole, CoreDNS, a hosts file.

import { type DnsAnswers, ofType } from './dns-answer.ts';
import { type DnsName, hostsOf, type Zone } from './zones.ts';

/** For /etc/dnsmasq.d. `address` answers for everything below a name, and for the name itself. */
export function renderDnsmasq({ zones, addresses, ttl }: DnsAnswers): string {
  const lines = zones.flatMap(zone =>
    hostsOf(zone).flatMap(({ name }) => {
      if (!name.startsWith('*.')) return addresses.map(address => `host-record=${name},${address},${ttl}`);
      const parent = name.slice(2);
      // `local`: what has no address of that family is not asked elsewhere.
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
  const match = `match ^(${hostsOf(zone)
    .map(({ name }) => pattern(name))
    .join('|')})\\.$`;
  const soa = `authority "${zone.name}. ${ttl} IN SOA ns.${zone.name}. hostmaster.${zone.name}. ${serial} 3600 900 604800 ${ttl}"`;
  const families = (['A', 'AAAA'] as const).flatMap(type => {
    const own = ofType(addresses, type);
    if (own.length === 0) return [];
    const lines = own.map(address => `        answer "{{ .Name }} ${ttl} IN ${type} ${address}"`);
    return [`    template IN ${type} {`, `        ${match}`, ...lines, '        fallthrough', '    }'];
  });
  return `${zone.name}:53 {
${families.join('\n')}
    # The names exist, without records of other types.
    template ANY ANY {
        ${match}
        rcode NOERROR
        ${soa}
        fallthrough
    }
    template ANY ANY {
        rcode NXDOMAIN
        ${soa}
    }
}
`;
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
