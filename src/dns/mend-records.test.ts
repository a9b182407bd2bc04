import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHosts } from './check-hosts.ts';
import { dnsTable } from './dns-table.samples.ts';
import { mendRecords } from './mend-records.ts';

const HOSTS = ['api.hub.lab.test', '*.apps.hub.lab.test', 'a.b.apps.hub.lab.test', 'right.hub.lab.test'];
const ADDRESSES = ['203.0.113.10'];
const RIGHT = { A: ADDRESSES };
const REQUEST = { hosts: HOSTS, addresses: ADDRESSES, port: 443, serial: 1 };

async function mend(format: string): Promise<string | undefined> {
  const lookup = dnsTable({
    'api.hub.lab.test': { A: ['192.0.2.1'] },
    '*.apps.hub.lab.test': RIGHT,
    'a.b.apps.hub.lab.test': RIGHT,
    'right.hub.lab.test': { ...RIGHT, AAAA: ['2001:db8::bad'] },
  });
  return mendRecords(format, await checkHosts(HOSTS, ADDRESSES, lookup), REQUEST);
}

test('mendRecords() gives records for a zone file, and what to remove', async () => {
  assert.equal(
    await mend('bind'),
    `; Remove: api.hub.lab.test A 192.0.2.1
; Remove: right.hub.lab.test AAAA 2001:db8::bad
api.hub.lab.test. 60 IN A 203.0.113.10
b.apps.hub.lab.test. 60 IN A 203.0.113.10
`,
  );
});

test('mendRecords() gives PowerShell in the zone of all hosts', async () => {
  const text = (await mend('windows')) ?? '';
  assert.match(
    text,
    /^Remove-DnsServerResourceRecord -ZoneName "hub.lab.test" -RRType A -Name "api" -RecordData "192.0.2.1" -Force$/m,
  );
  assert.match(text, /^Add-DnsServerResourceRecordA -ZoneName "hub.lab.test" -Name "b.apps" /m);
  assert.doesNotMatch(text, /"right"[^-]*-IPv4Address/);
});

test('mendRecords() speaks every format', async () => {
  for (const format of ['infoblox', 'dnsmasq', 'coredns', 'cloudflare', 'cloudflared', 'hosts'])
    assert.match((await mend(format)) ?? '', /api\\?\.hub/, format);
});

test('mendRecords() has nothing to say about right answers', async () => {
  const lookup = dnsTable(Object.fromEntries([...HOSTS, 'b.apps.hub.lab.test'].map(host => [host, RIGHT])));
  assert.equal(mendRecords('bind', await checkHosts(HOSTS, ADDRESSES, lookup), REQUEST), undefined);
});
