// What every format of `causeway render dns` is made from.

import { isIPv6 } from 'node:net';
import type { Zone } from './zones.ts';

export interface DnsAnswers {
  readonly zones: readonly Zone[];
  /** The gateway's, of either family. */
  readonly addresses: readonly string[];
  /** Seconds. */
  readonly ttl: number;
  /** A number that grows with each change of the zones. */
  readonly serial: number;
  /** Of the gateway, as clients reach it. */
  readonly port: number;
}

export type RecordType = 'A' | 'AAAA';

export function typeOf(address: string): RecordType {
  return isIPv6(address) ? 'AAAA' : 'A';
}

/** The addresses of one family. */
export function ofType(addresses: readonly string[], type: RecordType): readonly string[] {
  return addresses.filter(address => typeOf(address) === type);
}
