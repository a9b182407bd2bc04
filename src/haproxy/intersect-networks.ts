// The networks that two allow lists have in common: HAProxy reads one list for each section, and what it takes for that
// grows with the square of their number. Pure.

import { type Cidr, isIpv4, parseCidr } from '../wire/ip-address.ts';

/** `undefined` is everybody, an empty list nobody. */
export function intersectNetworks(
  a: readonly string[] | undefined,
  b: readonly string[] | undefined,
): readonly string[] | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const [first, second] = [a.map(text => parseCidr(text)), b.map(text => parseCidr(text))];
  return [
    ...a.filter((_, index) => second.some(network => isInside(first[index], network))),
    ...b.filter((_, index) => first.some(network => isInside(second[index], network))),
  ].filter((network, index, all) => all.indexOf(network) === index);
}

/** IPv4 and IPv6 are matched separately: `::/0` has no IPv4 address. */
function isInside(inner: Cidr | undefined, outer: Cidr | undefined): boolean {
  if (inner === undefined || outer === undefined || inner.prefix < outer.prefix) return false;
  if (isIpv4(inner.bytes, 0) !== isIpv4(outer.bytes, 0)) return false;
  for (let bit = 0; bit < outer.prefix; bit += 8) {
    const mask = 0xff & (0xff00 >> Math.min(8, outer.prefix - bit));
    if ((inner.bytes[bit >> 3] & mask) !== (outer.bytes[bit >> 3] & mask)) return false;
  }
  return true;
}
