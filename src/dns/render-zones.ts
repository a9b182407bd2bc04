// `causeway render dns` for DNS servers that hold zones: BIND, Windows Server, Infoblox.

import { type DnsAnswers, typeOf } from './dns-answer.ts';
import type { DnsName, Zone } from './zones.ts';

/** A zone file (RFC 1035) for each zone. */
export function renderBind(answers: DnsAnswers): string {
  const several = answers.zones.length > 1;
  return answers.zones.map(zone => bindZone(zone, answers, several)).join('\n');
}

function bindZone(zone: Zone, { addresses, ttl, serial }: DnsAnswers, several: boolean): string {
  const width = Math.max(...zone.names.map(({ owner }) => owner.length));
  const record = ({ owner, because }: DnsName) =>
    addresses.map(
      address =>
        `${owner.padEnd(width)} IN ${typeOf(address).padEnd(4)} ${address}${because === undefined ? '' : ` ; ${because}`}`,
    );
  return `; Zone ${zone.name}${several ? `: save this part as a file of its own` : ''}. In named.conf:
;   zone "${zone.name}" { type primary; file "/etc/bind/${zone.name}.zone"; };
; The name server is yours to fill in.
$ORIGIN ${zone.name}.
$TTL ${ttl}
@ IN SOA localhost. hostmaster.${zone.name}. ( ${serial} 3600 900 604800 ${ttl} )
@ IN NS localhost.
${zone.names.flatMap(record).join('\n')}
`;
}

/** PowerShell, module DnsServer. */
export function renderWindows({ zones, addresses, ttl }: DnsAnswers): string {
  const lines = zones.flatMap(zone => [
    `# ${zone.name}. Without the first line if the server has this zone already`,
    `Add-DnsServerPrimaryZone -Name "${zone.name}" -ZoneFile "${zone.name}.dns"`,
    ...zone.names.flatMap(({ owner, because }) => [
      ...(because === undefined ? [] : [`# ${because}`]),
      ...addresses.map(address => {
        const type = typeOf(address);
        const value = type === 'A' ? `-IPv4Address "${address}"` : `-IPv6Address "${address}"`;
        return `Add-DnsServerResourceRecord${type} -ZoneName "${zone.name}" -Name "${owner}" ${value} -TimeToLive (New-TimeSpan -Seconds ${ttl})`;
      }),
    ]),
  ]);
  return `${lines.join('\n')}\n`;
}

/** Calls of the WAPI, and the same as CSV for those who import. */
export function renderInfoblox({ zones, addresses, ttl }: DnsAnswers): string {
  const records = zones.flatMap(({ names }) =>
    names.flatMap(({ name }) => addresses.map(address => ({ name, address, type: typeOf(address) }))),
  );
  const calls = records.map(({ name, address, type }) => {
    const value = type === 'A' ? { ipv4addr: address } : { ipv6addr: address };
    const body = JSON.stringify({ name, ...value, view: 'default', ttl, use_ttl: true });
    return `wapi record:${type.toLowerCase()} '${body}'`;
  });
  const csv = (['A', 'AAAA'] as const).flatMap(type => {
    const rows = records.filter(record => record.type === type);
    const kind = `${type.toLowerCase()}record`;
    return rows.length === 0
      ? []
      : [
          `header-${kind},address*,fqdn*,ttl,view`,
          ...rows.map(({ name, address }) => `${kind},${address},${name},${ttl},default`),
        ];
  });
  return `#!/bin/sh
# Set GRID to the address of the grid master, and WAPI_USER to NAME:PASSWORD.
set -eu
wapi() {
  curl -sSf -u "$WAPI_USER" -H 'Content-Type: application/json' -X POST "https://$GRID/wapi/v2.12/$1" -d "$2"
}
# The zones must be there. If one is not:
${zones.map(({ name }) => `# wapi zone_auth '${JSON.stringify({ fqdn: name, view: 'default' })}'`).join('\n')}
${calls.join('\n')}

# The same for Data Management > CSV Import, without the leading '# ':
${csv.map(line => `# ${line}`).join('\n')}
`;
}
