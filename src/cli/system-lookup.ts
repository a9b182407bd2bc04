// Names as the system resolves them: the hosts file and whatever else getaddrinfo(3) asks, as every client does. TTL and
// CNAMEs, which getaddrinfo does not tell, are those of the machine's DNS server if it has the same addresses.

import { lookup } from 'node:dns/promises';
import { isIPv4 } from 'node:net';
import type { Lookup, LookupAnswer } from '../dns/check-hosts.ts';
import type { RecordType } from '../dns/dns-answer.ts';
import { type DnsServer, lookupAt } from '../dns/dns-client.ts';

/** A resolver that does not answer has been asked several times by then. */
const TIMEOUT_MS = 10_000;

/** For details that nothing depends on. */
const DETAILS_MS = 1000;

/** Asks for both families at once, and for each name once: there are only four threads for it. */
export function systemLookup(servers: readonly DnsServer[]): Lookup {
  const addDetails = detailsFrom(lookupAt(servers.slice(0, 1), DETAILS_MS));
  const known = new Map<string, Promise<LookupAnswer>>();
  return async (name, type) => {
    const asked = known.get(name) ?? inTime(ask(name));
    known.set(name, asked);
    const both = await asked;
    if (both.status !== 'answered') return both;
    const addresses = both.addresses.filter(address => isIPv4(address) === (type === 'A'));
    return addresses.length === 0
      ? answer('no-data', [])
      : addDetails(answer('answered', addresses), name, type);
  };
}

/** A server that does not answer is asked no more. */
function detailsFrom(dns: Lookup) {
  let isSilent = false;
  return async (known: LookupAnswer, name: string, type: RecordType): Promise<LookupAnswer> => {
    if (isSilent) return known;
    const { status, addresses, ttl, chain } = await dns(name, type);
    if (status === 'failed') isSilent = true;
    const isSame =
      addresses.length === known.addresses.length &&
      addresses.every(address => known.addresses.includes(address));
    return isSame ? { ...known, ...(ttl !== undefined && { ttl }), chain } : known;
  };
}

async function inTime(asked: Promise<LookupAnswer>): Promise<LookupAnswer> {
  const late = Promise.withResolvers<LookupAnswer>();
  const timer = setTimeout(
    () => late.resolve(answer('failed', [], `no answer within ${TIMEOUT_MS / 1000} s`)),
    TIMEOUT_MS,
  );
  try {
    return await Promise.race([asked, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

async function ask(name: string): Promise<LookupAnswer> {
  try {
    const found = await lookup(name, { all: true });
    return answer('answered', [...new Set(found.map(({ address }) => address))]);
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    if (code === 'ENOTFOUND') return answer('no-name', []);
    if (code === 'ENODATA') return answer('no-data', []);
    return answer('failed', [], code === '' ? message : code);
  }
}

function answer(status: LookupAnswer['status'], addresses: readonly string[], why?: string): LookupAnswer {
  return { status, addresses, chain: [], ...(why !== undefined && { why }) };
}
