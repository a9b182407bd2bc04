// The DNS server that can be updated and external-dns that updates it, without a gateway.

import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, test } from 'node:test';
import { until } from '../test/features/given.ts';
import { missingGoPrograms } from './go-build.ts';
import { installDefinition } from './install-definition.ts';
import { missingPrograms } from './packages.ts';
import { startApiServer } from './start-api-server.ts';
import { startBind } from './start-bind.ts';
import { startExternalDns, TXT_PREFIX, WILDCARD } from './start-external-dns.ts';
import { tempDir } from './temp-dir.ts';

const skip = missingPrograms('named', 'dig');
const skipExternalDns =
  skip ||
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'external-dns');

/** Starters put their files here, so that leftovers are found. */
const base = await tempDir();
process.env.TMPDIR = base.path;
after(() => base[Symbol.asyncDispose]());

test('startBind() answers for its zones, transfers them, and leaves nothing behind', { skip }, async () => {
  const dns = await startBind({ zones: { 'a.test': 'www IN A 192.0.2.1', 'b.test': '*.x IN AAAA ::1' } });
  {
    await using _ = dns;
    const www = { name: 'www.a.test', ttl: 60, type: 'A', data: '192.0.2.1' };
    assert.deepEqual(await dns.dig('www.a.test', 'A'), { status: 'NOERROR', records: [www] });
    assert.deepEqual(await dns.dig('www.a.test', 'AAAA'), { status: 'NOERROR', records: [] });
    assert.deepEqual(await dns.dig('other.a.test', 'A'), { status: 'NXDOMAIN', records: [] });
    assert.deepEqual((await dns.dig('any.x.b.test', 'AAAA')).records[0]?.data, '::1');
    const names = (await dns.transfer('a.test')).map(({ name, type }) => `${name} ${type}`);
    assert.deepEqual(names, ['a.test SOA', 'a.test NS', 'ns.a.test A', 'www.a.test A']);
    assert.equal((await dns.dig('elsewhere.test', 'A')).status, 'REFUSED');
  }
  assert.throws(() => process.kill(dns.pid, 0), { code: 'ESRCH' });
  assert.deepEqual(await readdir(base.path), []);
});

test('startBind() shows what named prints about a bad zone, and leaves nothing behind', {
  skip,
}, async () => {
  const zones = { 'a.test': 'www IN A 192.0.2.300' };
  await assert.rejects(startBind({ zones }), /bad dotted quad/);
  assert.deepEqual(await readdir(base.path), []);
});

test('startExternalDns() writes a DNSEndpoint to BIND, removes it, and leaves nothing behind', {
  skip: skipExternalDns,
  timeout: 900_000,
}, async () => {
  await using api = await startApiServer();
  await installDefinition(api, 'external-dns-dnsendpoints', 'dnsendpoints.externaldns.k8s.io');
  await using bind = await startBind({ zones: { 'a.test': '' } });
  const program = await startExternalDns({ kubeconfig: await api.kubeconfig(), bind });
  {
    await using _ = program;
    const addresses = async (name: string) => (await bind.dig(name, 'A')).records.map(({ data }) => data);
    const endpoint = { dnsName: '*.x.a.test', recordType: 'A', recordTTL: 7, targets: ['192.0.2.1'] };
    await api.apply({
      apiVersion: 'externaldns.k8s.io/v1alpha1',
      kind: 'DNSEndpoint',
      metadata: { name: 'x', namespace: 'default' },
      spec: { endpoints: [endpoint] },
    });
    await until('the address', async () => String(await addresses('any.x.a.test')) === '192.0.2.1');
    const owner = await bind.dig(`${TXT_PREFIX}a-${WILDCARD}.x.a.test`, 'TXT');
    assert.match(owner.records[0]?.data ?? '', /external-dns\/owner=causeway/);
    await api.kubectl('delete', 'dnsendpoint', 'x');
    await until('no address', async () => (await addresses('any.x.a.test')).length === 0);
  }
  assert.throws(() => process.kill(program.pid, 0), { code: 'ESRCH' });
});
