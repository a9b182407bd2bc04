// DNS: does every name of a cluster resolve, and to the gateway? A wildcard is tried by an example.

import type { Cluster } from '../cluster/cluster.ts';
import { CATCH_ALL } from '../cluster/hostname.ts';
import { checkHosts, type HostFinding, type LookupAnswer } from '../dns/check-hosts.ts';
import type { Report } from './check.ts';
import { inParallel, namesOf, type World } from './world.ts';

/** Questions at once. */
const AT_ONCE = 8;
/** Names in one sentence. */
const SHOWN = 4;

export async function checkDns(
  cluster: Cluster,
  { lookup, places }: Pick<World, 'lookup' | 'places'>,
  report: Report,
): Promise<void> {
  const hosts = [...new Set(cluster.routes.flatMap(route => route.hosts))].filter(host => host !== CATCH_ALL);
  if (hosts.length === 0) return report.skip('dns', 'the cluster has no hosts');
  const { expected, isLocal } = places;
  if (expected !== undefined) {
    const findings = await checkHosts(hosts, expected, lookup);
    return judge(findings.filter(isRelevant), hosts, expected, report);
  }
  if (isLocal) return report.skip('dns', 'only this machine reaches the gateway, so its names need no DNS');
  const names = namesOf({ hosts });
  const answers = await inParallel(names, AT_ONCE, async name => answerOf(name, lookup));
  const missing = names.filter((_, index) => ['no-data', 'no-name'].includes(answers[index].status));
  const failed = answers.find(({ status }) => status === 'failed');
  if (failed !== undefined) return notAnswered(failed.why ?? 'no answer', report);
  if (missing.length > 0) return notThere(missing, [], report);
  const found = [...new Set(answers.flatMap(({ addresses }) => addresses))];
  report.ok('dns', `${shown(names)} ${names.length === 1 ? 'resolves' : 'resolve'} to ${shown(found)}`);
}

/**
 * One address of the gateway is known, and it may have others: those of another family, and further ones beside a right
 * one, are not judged.
 */
function isRelevant({ verdict, wanted, found }: HostFinding): boolean {
  return wanted.length > 0 && !(verdict === 'elsewhere' && found.some(address => wanted.includes(address)));
}

function judge(
  findings: readonly HostFinding[],
  hosts: readonly string[],
  expected: readonly string[],
  report: Report,
): void {
  const target = expected.join(', ');
  const having = (verdict: HostFinding['verdict']) => findings.filter(finding => finding.verdict === verdict);
  const sentences = (some: readonly HostFinding[]) => shown(some.map(({ host, text }) => `${host} ${text}`));
  const [unchecked] = having('unchecked');
  if (unchecked !== undefined) notAnswered(`${unchecked.name}: ${unchecked.text}`, report);
  const missing = having('missing');
  if (missing.length > 0) notThere([...new Set(missing.map(({ host }) => host))], expected, report);
  const elsewhere = having('elsewhere');
  if (elsewhere.length > 0) {
    const fix = `Change the records to ${target}, and wait until resolvers have forgotten the old ones (their TTL)`;
    report.fail('dns', 'DnsElsewhere', sentences(elsewhere), fix);
  }
  const swallowed = having('swallowed');
  if (swallowed.length > 0) {
    const fix = `Give the name a record of its own that leads to ${target}, or remove the nearer name (RFC 4592)`;
    report.fail('dns', 'DnsSwallowed', sentences(swallowed), fix);
  }
  const long = having('ttl-too-long');
  if (long.length > 0) {
    const fix = 'Lower the TTL: until it is over, a move of the gateway reaches nobody';
    report.warn('dns', 'DnsTtlLong', sentences(long), fix);
  }
  if (findings.every(({ verdict }) => verdict === 'right')) {
    report.ok('dns', `${shown(hosts)} ${hosts.length === 1 ? 'resolves' : 'resolve'} to ${target}`);
  }
}

async function answerOf(name: string, lookup: World['lookup']): Promise<LookupAnswer> {
  const [four, six] = await Promise.all([lookup(name, 'A'), lookup(name, 'AAAA')]);
  const addresses = [...four.addresses, ...six.addresses];
  return addresses.length > 0 ? { ...four, status: 'answered', addresses } : four;
}

function notThere(names: readonly string[], expected: readonly string[], report: Report): void {
  const flags = (expected.length === 0 ? ['IP'] : expected).map(address => `--address ${address}`).join(' ');
  const fix = `Add records that lead to the gateway: causeway render dns --format bind ${flags} prints them (also windows, infoblox, …)`;
  const text = `${shown(names)} ${names.length === 1 ? 'does' : 'do'} not resolve`;
  report.fail('dns', 'DnsMissing', text, fix);
}

function notAnswered(why: string, report: Report): void {
  const fix = 'Look at the resolver of this machine: resolvectl status, or /etc/resolv.conf';
  report.warn('dns', 'DnsFailed', `The resolver of this machine does not answer: ${why}`, fix);
}

function shown(items: readonly string[]): string {
  const more = items.length > SHOWN ? ` and ${items.length - SHOWN} more` : '';
  return `${items.slice(0, SHOWN).join(', ')}${more}`;
}
