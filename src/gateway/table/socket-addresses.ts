// The addresses of a backend, from the texts in which the control thread sends them.

import { parseIp } from '../../wire/ip-address.ts';
import type { SocketAddress } from '../io/reactor.ts';

/** `known`: the addresses of the same cluster, most of whose routes lead to the same few. */
export function socketAddresses(
  texts: readonly string[],
  port: number,
  known = new Map<string, Uint8Array>(),
): SocketAddress[] {
  return texts.flatMap(text => {
    if (text.startsWith('/')) return [{ address: new Uint8Array(16), port: 0, path: text }];
    const address = known.get(text) ?? parseIp(text);
    if (address === undefined) return [];
    known.set(text, address);
    return [{ address, port }];
  });
}
