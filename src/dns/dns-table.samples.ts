// A DNS server for tests: records by name, wildcards by the rules of RFC 4592.

import type { Lookup } from './check-hosts.ts';
import type { RecordType } from './dns-answer.ts';

export function dnsTable(
  records: Readonly<Record<string, Partial<Record<RecordType, readonly string[]>>>>,
): Lookup {
  const names = Object.keys(records);
  const exists = (name: string) => names.some(each => each === name || each.endsWith(`.${name}`));
  return async (name, type) => {
    let owner = name;
    if (!exists(name)) {
      let encloser = name;
      do encloser = encloser.slice(encloser.indexOf('.') + 1);
      while (!exists(encloser) && encloser.includes('.'));
      owner = `*.${encloser}`;
    }
    if (!exists(owner)) return { status: 'no-name', addresses: [], chain: [] };
    const addresses = records[owner]?.[type] ?? [];
    if (addresses.length === 0) return { status: 'no-data', addresses, chain: [] };
    return { status: 'answered', addresses, ttl: 60, chain: [] };
  };
}
