// For explain.ts: the likely intended name in place of an unknown one, or why a wildcard that looks right does not
// match.

import { CLUSTER_ID } from '../../cluster/cluster-id.ts';
import { isHostname } from '../../cluster/hostname.ts';
import { nearest, slipDistance } from '../../text/nearest.ts';
import type { Question } from './question.ts';
import type { Table, TableRoute } from './table.ts';

/** Comparing two names takes about 5 µs, so a large table is not searched to its end. */
const MOST_NAMES = 10_000;

/** Starts with `; `, or is empty if there is nothing to suggest. Expects a normalized name. */
export function suggestHost(table: Table, { protocol }: Question, host: string): string {
  // Comparing takes time quadratic in the length, and the input is arbitrary.
  if (!isHostname(host)) return '';
  const hosts = protocol === 'connect' ? [] : hostsOf(table, protocol);
  const wildcard = hosts.find(({ name }) => name.startsWith('*.') && coversMore(name.slice(2), host));
  if (wildcard !== undefined) {
    const domain = wildcard.name.slice(2);
    const why =
      host === domain
        ? `the name '${domain}' itself is not covered by`
        : `exactly one label in front of '${domain}' is covered by`;
    return `; ${why} '${wildcard.name}' of cluster '${wildcard.cluster}'`;
  }
  const names = protocol === 'connect' ? connectNames(table) : hosts;
  // A wildcard is compared as if it matched the name.
  const label = host.split('.', 1)[0];
  const asWritten = new Map(
    names.slice(0, MOST_NAMES).map(known => [known.name.replace(/^\*(?=\.)/, label), known] as const),
  );
  const near = asWritten.get(nearest(host, [...asWritten.keys()], labelDistance) ?? '');
  return near === undefined ? '' : `; did you mean '${near.name}' of cluster '${near.cluster}'?`;
}

/** The same for ids. */
export function suggestId(table: Table, id: string): string {
  if (!CLUSTER_ID.test(id)) return '';
  const near = nearest(id, [...table.ids.keys()].slice(0, MOST_NAMES));
  return near === undefined ? '' : `; did you mean '${near}' of cluster '${table.ids.get(near)?.name}'?`;
}

/** The distance of the labels that differ: names in one domain share most of their letters. */
function labelDistance(host: string, known: string): number | undefined {
  const [ours, theirs] = [host.split('.'), known.split('.')];
  while (ours.length > 1 && theirs.length > 1 && ours.at(-1) === theirs.at(-1)) {
    ours.pop();
    theirs.pop();
  }
  while (ours.length > 1 && theirs.length > 1 && ours[0] === theirs[0]) {
    ours.shift();
    theirs.shift();
  }
  return slipDistance(ours.join('.'), theirs.join('.'));
}

/** The host ends in the wildcard's domain, with no label in front of it or more than one. */
function coversMore(domain: string, host: string): boolean {
  return host === domain || (host.endsWith(`.${domain}`) && host.slice(0, -domain.length - 1).includes('.'));
}

interface KnownName {
  readonly name: string;
  readonly cluster: string;
}

function hostsOf(table: Table, protocol: 'tls' | 'http'): KnownName[] {
  return routesOf(table)
    .filter(({ kind }) => (kind === 'apps-http') === (protocol === 'http'))
    .flatMap(({ hosts, cluster }) => hosts.map(name => ({ name, cluster: cluster.name })));
}

function connectNames(table: Table): KnownName[] {
  const own = [...table.clusters.values()].flatMap(({ name, id, api }) =>
    api === undefined
      ? []
      : [name, ...(id === undefined ? [] : [id.toLowerCase()]), ...api.hosts].map(one => ({
          name: one,
          cluster: name,
        })),
  );
  const further = routesOf(table).flatMap(({ connect, cluster }) =>
    connect.map(name => ({ name, cluster: cluster.name })),
  );
  return [...own, ...further];
}

function routesOf(table: Table): readonly TableRoute[] {
  return [...table.clusters.values()].flatMap(({ routes }) => routes);
}
