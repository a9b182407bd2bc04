// For explain.ts: names the list that refuses an address, or the entry that admits it.

import { formatIp, isIpv4, parseCidr } from '../../wire/ip-address.ts';
import { compileAllowList } from './allow-list.ts';

/** In the notation of the file. */
type Cidrs = readonly string[];

/** The number of entries shown of a longer list. */
const SHOWN = 6;

/** The first entry that contains the address, or undefined. */
export function entryWith(list: Cidrs, address: Uint8Array): string | undefined {
  return list.find(cidr => compileAllowList([cidr])?.admits(address, 0) === true);
}

/** `192.0.2.9 matches no entry of agents of :6443, which has 10.1.0.0/16`; `name` is the list's. */
export function whyNotIn(list: Cidrs, name: string, address: Uint8Array): string {
  const client = formatIp(address, 0);
  if (list.length === 0) return `${client} is not in ${name}, which is empty`;
  const isV4 = isIpv4(address, 0);
  const sameFamily = list.some(cidr => isV4 === isIpv4(parseCidr(cidr)?.bytes ?? address, 0));
  const [own, others] = isV4 ? ['IPv4', 'IPv6'] : ['IPv6', 'IPv4'];
  const hint = sameFamily ? '' : `; ${client} is ${own}, but the list has only ${others} networks`;
  return `${client} matches no entry of ${name}, which has ${shownList(list)}${hint}`;
}

export function shownList(list: readonly string[]): string {
  const more = list.length - SHOWN;
  return `${list.slice(0, SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
