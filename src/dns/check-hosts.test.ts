import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHosts, isWrong, type Lookup, type LookupAnswer } from './check-hosts.ts';
import { dnsTable } from './dns-table.samples.ts';

const GATEWAY = ['203.0.113.10', '2001:db8::10'];
const ALL = { A: ['203.0.113.10'], AAAA: ['2001:db8::10'] };

/** What is not right, as `host type verdict: text`. */
async function check(hosts: readonly string[], lookup: Lookup, addresses = GATEWAY): Promise<string[]> {
  const findings = await checkHosts(hosts, addresses, lookup, { randomLabel: () => 'random' });
  return findings
    .filter(({ verdict }) => verdict !== 'right')
    .map(({ host, type, verdict, text }) => `${host} ${type} ${verdict}: ${text}`);
}

test('checkHosts() finds nothing wrong with right answers, wildcards by a random label', async () => {
  const lookup = dnsTable({ 'api.lab.test': ALL, '*.apps.lab.test': ALL });
  const asked: string[] = [];
  const findings = await checkHosts(
    ['api.lab.test', '*.apps.lab.test', '*', 'api.lab.test'],
    GATEWAY,
    (name, type) => {
      asked.push(`${name} ${type}`);
      return lookup(name, type);
    },
    { randomLabel: () => 'random' },
  );
  assert.deepEqual(
    findings.map(({ host, type, verdict, found }) => [host, type, verdict, ...found]),
    [
      ['api.lab.test', 'A', 'right', '203.0.113.10'],
      ['api.lab.test', 'AAAA', 'right', '2001:db8::10'],
      ['*.apps.lab.test', 'A', 'right', '203.0.113.10'],
      ['*.apps.lab.test', 'AAAA', 'right', '2001:db8::10'],
    ],
  );
  assert.deepEqual(asked.toSorted(), [
    'api.lab.test A',
    'api.lab.test AAAA',
    'random.apps.lab.test A',
    'random.apps.lab.test AAAA',
  ]);
});

test('checkHosts() names what is missing, and what leads elsewhere', async () => {
  const lookup = dnsTable({
    'old.lab.test': { A: ['192.0.2.1'], AAAA: ['2001:db8::10'] },
    'both.lab.test': { A: ['192.0.2.1', '203.0.113.10'], AAAA: ['2001:db8::10'] },
    'four.lab.test': { A: ['203.0.113.10'] },
  });
  assert.deepEqual(await check(['both.lab.test', 'four.lab.test', 'gone.lab.test', 'old.lab.test'], lookup), [
    'both.lab.test A elsewhere: leads to 192.0.2.1, not only to 203.0.113.10',
    'four.lab.test AAAA missing: exists, without an AAAA record',
    'gone.lab.test A missing: does not exist',
    'gone.lab.test AAAA missing: does not exist',
    'old.lab.test A elsewhere: leads to 192.0.2.1, not to 203.0.113.10',
  ]);
});

test('checkHosts() wants no record of a family that the gateway does not have', async () => {
  const lookup = dnsTable({ 'a.lab.test': ALL, 'b.lab.test': { A: ALL.A } });
  assert.deepEqual(await check(['a.lab.test', 'b.lab.test'], lookup, ['203.0.113.10']), [
    'a.lab.test AAAA elsewhere: leads to 2001:db8::10, although the gateway has no address of that family: remove it',
  ]);
});

test('checkHosts() wants all addresses', async () => {
  const lookup = dnsTable({ 'a.lab.test': { A: ['203.0.113.10'] } });
  assert.deepEqual(await check(['a.lab.test'], lookup, ['203.0.113.10', '203.0.113.11']), [
    'a.lab.test A missing: lacks 203.0.113.11',
  ]);
});

test('checkHosts() names the nearer name that hides a host from a wildcard', async () => {
  const lookup = dnsTable({
    '*.lab.test': ALL,
    'x.apps.lab.test': { A: ['192.0.2.9'] },
    'txt.lab.test': {},
    '*.deep.lab.test': ALL,
    'a.b.deep.lab.test': ALL,
  });
  const hosts = ['*.apps.lab.test', 'txt.lab.test', '*.deep.lab.test', 'a.b.deep.lab.test'];
  assert.deepEqual(await check(hosts, lookup, ['203.0.113.10', '2001:db8::10']), [
    '*.apps.lab.test A swallowed: has no A record: *.lab.test leads to the gateway, but apps.lab.test exists and hides it',
    '*.apps.lab.test AAAA swallowed: has no AAAA record: *.lab.test leads to the gateway, but apps.lab.test exists and hides it',
    'b.deep.lab.test A swallowed: has no A record: *.deep.lab.test leads to the gateway, but b.deep.lab.test exists and hides it',
    'b.deep.lab.test AAAA swallowed: has no AAAA record: *.deep.lab.test leads to the gateway, but b.deep.lab.test exists and hides it',
    'txt.lab.test A swallowed: has no A record: *.lab.test leads to the gateway, but txt.lab.test exists and hides it',
    'txt.lab.test AAAA swallowed: has no AAAA record: *.lab.test leads to the gateway, but txt.lab.test exists and hides it',
  ]);
});

test('checkHosts() does not take a wildcard for ours that leads elsewhere', async () => {
  const lookup = dnsTable({ '*.test': { A: ['192.0.2.1'] }, 'x.lab.test': {} });
  assert.deepEqual(await check(['x.lab.test'], lookup, ['203.0.113.10']), [
    'x.lab.test A missing: exists, without an A record',
  ]);
});

test('checkHosts() reports long TTLs and CNAMEs of answers that are right, and what could not be asked', async () => {
  const answer: LookupAnswer = { status: 'answered', addresses: ['203.0.113.10'], ttl: 60, chain: [] };
  const lookup: Lookup = async (name, type) => {
    if (name === 'dead.lab.test') return { status: 'failed', addresses: [], chain: [], why: 'SERVFAIL' };
    if (type === 'AAAA') return { status: 'no-data', addresses: [], chain: [] };
    return name === 'long.lab.test'
      ? { ...answer, ttl: 86_400 }
      : { ...answer, chain: ['gw.test', 'x.test'] };
  };
  const findings = await checkHosts(
    ['alias.lab.test', 'dead.lab.test', 'long.lab.test'],
    ['203.0.113.10'],
    lookup,
  );
  assert.deepEqual(
    findings.filter(({ type }) => type === 'A').map(({ verdict, text }) => [verdict, text]),
    [
      ['right', 'leads to the gateway, by CNAME to gw.test, then x.test'],
      ['unchecked', 'SERVFAIL'],
      ['ttl-too-long', 'leads to the gateway, with a TTL of 86400 s: use 300 s or less'],
    ],
  );
  assert.ok(!findings.some(isWrong));
});

test('checkHosts() asks a bounded number of questions at once, each once', async () => {
  let now = 0;
  let most = 0;
  const asked = new Map<string, number>();
  const hosts = Array.from({ length: 200 }, (_, i) => `host-${i}.lab.test`);
  const seen: number[] = [];
  const findings = await checkHosts(
    hosts,
    GATEWAY,
    async (name, type) => {
      asked.set(`${name} ${type}`, (asked.get(`${name} ${type}`) ?? 0) + 1);
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
      now--;
      return { status: 'no-name', addresses: [], chain: [] };
    },
    { onProgress: (done, all) => seen.push(done, all) },
  );
  assert.equal(findings.length, 400);
  assert.deepEqual(seen.slice(-2), [400, 400]);
  assert.ok(most > 1 && most <= 32, String(most));
  assert.deepEqual([...new Set(asked.values())], [1]);
});
