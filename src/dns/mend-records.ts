// What to change in a DNS server so that its answers become right, in the format that the user has: removals first, then
// the records of `causeway render dns` for the hosts that are wrong.

import { type HostFinding, isWrong } from './check-hosts.ts';
import { typeOf } from './dns-answer.ts';
import { type DnsRequest, RECORD_TTL_SECONDS, renderDns } from './render-dns.ts';
import { zonesOf } from './zones.ts';

/** Undefined if nothing is wrong. */
export function mendRecords(
  format: string,
  findings: readonly HostFinding[],
  request: DnsRequest,
): string | undefined {
  const wrong = findings.filter(isWrong);
  if (wrong.length === 0) return undefined;
  const removals = [...new Set(wrong.flatMap(finding => removalsOf(format, finding, request.hosts)))];
  const names = [...new Set(wrong.filter(({ wanted }) => wanted.length > 0).map(({ host }) => host))];
  const records = names.length === 0 ? '' : recordsOf(format, { ...request, only: names });
  return `${removals.map(line => `${line}\n`).join('')}${records}`;
}

function removalsOf(
  format: string,
  { host, found, wanted, type, chain }: HostFinding,
  hosts: readonly string[],
): readonly string[] {
  const comment = format === 'bind' ? ';' : '#';
  if (chain.length > 0) return [`${comment} Remove: ${host} CNAME ${chain[0]}`];
  const foreign = found.filter(address => !wanted.includes(address));
  if (format !== 'windows') return foreign.map(address => `${comment} Remove: ${host} ${type} ${address}`);
  const zone = zonesOf(hosts).find(({ name }) => host === name || host.endsWith(`.${name}`))?.name ?? host;
  const owner = host === zone ? '@' : host.slice(0, -zone.length - 1);
  return foreign.map(
    address =>
      `Remove-DnsServerResourceRecord -ZoneName "${zone}" -RRType ${type} -Name "${owner}" -RecordData "${address}" -Force`,
  );
}

/** A zone exists already: its SOA and NS are not the problem. */
function recordsOf(format: string, request: DnsRequest): string {
  if (format !== 'bind') return renderDns(format, request) ?? '';
  const { only = [], addresses } = request;
  const line = (name: string, address: string) =>
    `${name}. ${RECORD_TTL_SECONDS} IN ${typeOf(address)} ${address}\n`;
  return only.flatMap(name => addresses.map(address => line(name, address))).join('');
}
