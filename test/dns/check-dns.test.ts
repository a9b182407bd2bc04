// `causeway dns check` against real servers, with zones that are wrong in each way on purpose.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { HostFinding } from '../../src/dns/check-hosts.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { startBind } from '../../testbed/start-bind.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { startCoredns } from '../../testbed/start-coredns.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { startDns } from './start-dns.ts';

const GATEWAY = ['203.0.113.10', '2001:db8::10'];
const BOTH = (name: string) =>
  GATEWAY.map(ip => `${name} IN ${ip.includes(':') ? 'AAAA' : 'A'} ${ip}`).join('\n');

const config = (...hosts: readonly string[]) => `
listen: [":6443"]
clusters:
  - name: hub
    api: { hosts: ${JSON.stringify(hosts)}, backends: ["192.0.2.1:6443"] }
`;

describe('causeway dns check', {
  skip: missingPrograms('named', 'dig') || missingGoPrograms('coredns'),
}, () => {
  let dir: TempDir;
  before(async () => {
    dir = await tempDir();
  });
  after(() => dir[Symbol.asyncDispose]());

  async function check(port: number, hosts: readonly string[], flags: readonly string[] = [], ips = GATEWAY) {
    const file = dir.file('causeway.yaml');
    await writeFile(file, config(...hosts));
    const addresses = ips.flatMap(ip => ['--address', ip]);
    const server = ['--server', `127.0.0.1:${port}`];
    return run(causewayBin, ['dns', 'check', '-c', file, ...server, ...addresses, ...flags]);
  }

  /** What is not right, as `host type verdict`, and the exit code. */
  async function wrong(port: number, hosts: readonly string[], ips = GATEWAY): Promise<unknown[]> {
    const { code, stdout, stderr } = await check(port, hosts, ['--json'], ips);
    assert.equal(stderr, '');
    const { findings, ok } = JSON.parse(stdout.toString()) as { findings: HostFinding[]; ok: boolean };
    assert.equal(ok, code === 0);
    const lines = findings.filter(({ verdict }) => verdict !== 'right');
    return [code, ...lines.map(({ host, type, verdict }) => `${host} ${type} ${verdict}`)];
  }

  test('BIND: what is right, missing, elsewhere, swallowed, or remembered for too long', async () => {
    await using bind = await startBind({
      zones: {
        'right.test': [BOTH('api'), BOTH('*.apps')].join('\n'),
        'empty.test': '',
        'elsewhere.test': `${BOTH('api')}\napi IN A 192.0.2.1\nold IN A 192.0.2.1`,
        // x.apps makes apps exist, so *.swallowed.test does not answer below it. api has another type only.
        'swallowed.test': `${BOTH('*')}\nx.apps IN A 192.0.2.9\napi IN TXT hello`,
        'long.test': `api 86400 IN A ${GATEWAY[0]}\napi 60 IN AAAA ${GATEWAY[1]}`,
        'alias.test': `${BOTH('gw')}\napi IN CNAME two\ntwo IN CNAME gw`,
      },
    });
    const { port } = bind;
    assert.deepEqual(await wrong(port, ['api.right.test', '*.apps.right.test']), [0]);
    assert.deepEqual(await wrong(port, ['api.empty.test', '*.apps.empty.test']), [
      1,
      'api.empty.test A missing',
      'api.empty.test AAAA missing',
      '*.apps.empty.test A missing',
      '*.apps.empty.test AAAA missing',
    ]);
    assert.deepEqual(await wrong(port, ['api.elsewhere.test', 'old.elsewhere.test']), [
      1,
      'api.elsewhere.test A elsewhere',
      'old.elsewhere.test A elsewhere',
      'old.elsewhere.test AAAA missing',
    ]);
    assert.deepEqual(await wrong(port, ['*.apps.swallowed.test', 'api.swallowed.test', 'b.swallowed.test']), [
      1,
      'api.swallowed.test A swallowed',
      'api.swallowed.test AAAA swallowed',
      '*.apps.swallowed.test A swallowed',
      '*.apps.swallowed.test AAAA swallowed',
    ]);
    assert.deepEqual(await wrong(port, ['api.long.test']), [0, 'api.long.test A ttl-too-long']);
    assert.deepEqual(await wrong(port, ['api.right.test'], GATEWAY.slice(0, 1)), [
      1,
      'api.right.test AAAA elsewhere',
    ]);
    assert.deepEqual(await wrong(port, ['api.alias.test']), [0]);
  });

  test('CNAMEs are followed, and named', async () => {
    await using bind = await startBind({
      zones: { 'alias.test': `${BOTH('gw')}\napi IN CNAME two\ntwo IN CNAME gw` },
    });
    const { code, stdout } = await check(bind.port, ['api.alias.test']);
    assert.equal(code, 0);
    assert.match(
      stdout.toString(),
      /^right\s+api\.alias\.test\s+A\s+leads to the gateway, by CNAME to two\.alias\.test, then gw\.alias\.test$/m,
    );
  });

  test('what mends it, when added to the zone, mends it', async () => {
    const broken = `${BOTH('*')}\nx.apps IN A 192.0.2.9\nold IN A 192.0.2.1`;
    const hosts = ['*.apps.lab.test', 'a.b.apps.lab.test', 'old.lab.test', 'fine.lab.test'];
    let mend = '';
    {
      await using bind = await startBind({ zones: { 'lab.test': broken } });
      const { code, stdout } = await check(bind.port, hosts);
      assert.equal(code, 1);
      const text = stdout.toString();
      // a.b.apps.lab.test would hide it from the wildcard that is missing.
      assert.match(text, /^b\.apps\.lab\.test\. 60 IN A 203\.0\.113\.10$/m);
      assert.match(text, /^; Remove: old\.lab\.test A 192\.0\.2\.1$/m);
      mend = text.slice(text.indexOf('To mend it')).split('\n').slice(2).join('\n');
    }
    const without = broken.replace(/^old.*$/m, '');
    await using bind = await startBind({ zones: { 'lab.test': `${without}\n${mend}` } });
    const { code, stdout } = await check(bind.port, hosts);
    assert.equal(code, 0, stdout.toString());
  });

  test('CoreDNS whose template answers AAAA with an A record, as is often copied, is found', async () => {
    const template = (type: string, answer: string) => `  template IN ${type} lab.test {
    match ^(.*)\\.lab\\.test\\.$
    answer "{{ .Name }} 60 IN ${answer}"
  }`;
    await using coredns = await startCoredns({
      plugins: [template('A', 'A 203.0.113.10'), template('AAAA', 'A 203.0.113.10')].join('\n'),
    });
    assert.deepEqual(await wrong(coredns.port, ['api.lab.test']), [1, 'api.lab.test AAAA missing']);
  });

  test('our own server is right, over TCP where an answer is large', async () => {
    const many = Array.from({ length: 100 }, (_, i) => `203.0.113.${i + 1}`);
    const hosts = ['api.lab.test', '*.apps.lab.test'];
    await using dns = await startDns(
      config(...hosts),
      many.flatMap(ip => ['--address', ip]),
    );
    assert.deepEqual(await wrong(dns.port, hosts, many), [0]);
    const { stdout } = await check(dns.port, hosts, [], many);
    assert.match(stdout.toString(), /^ok: 2 hosts lead to the gateway$/m);
  });

  test('a server that does not answer, or refuses, could not be checked: 2', async () => {
    const { code, stdout } = await check(await freePort(), ['api.lab.test']);
    assert.equal(code, 2);
    assert.match(
      stdout.toString(),
      /^unchecked\s+api\.lab\.test\s+A\s+127\.0\.0\.1 port \d+ cannot be reached/m,
    );
    await using bind = await startBind({ zones: { 'other.test': '' } });
    const refused = await check(bind.port, ['api.lab.test']);
    assert.equal(refused.code, 2);
    assert.match(refused.stdout.toString(), /answers REFUSED$/m);
  });

  test('wrong usage and bad files', async () => {
    const cases: readonly [args: readonly string[], code: number, message: RegExp][] = [
      [[], 64, /^causeway: Name what to do: serve or check\. See 'causeway help dns'$/m],
      [['chekc'], 64, /Did you mean 'check'\?/],
      [['check'], 64, /^causeway: --address is missing: the address of the gateway$/m],
      [['check', '--address', 'x'], 64, /--address must be an IPv4 or IPv6 address: x$/m],
      [['check', '--address', '192.0.2.1', '--server', 'ns'], 64, /--server must be an address such as/],
      [['check', '--address', '192.0.2.1', '--format', 'binf'], 64, /did you mean bind\?/],
      [['check', '--address', '192.0.2.1', '-c', dir.file('none.yaml')], 2, /there is no such file/],
    ];
    for (const [args, code, message] of cases) {
      const ended = await run(causewayBin, ['dns', ...args]);
      assert.deepEqual([ended.code, ended.stdout.toString()], [code, ''], ended.stderr);
      assert.match(ended.stderr, message);
    }
    await writeFile(dir.file('empty.yaml'), 'listen: [":1"]\nclusters: []\n');
    const empty = await run(causewayBin, [
      'dns',
      'check',
      '-c',
      dir.file('empty.yaml'),
      '--address',
      '192.0.2.1',
    ]);
    assert.deepEqual([empty.code, empty.stderr.trim().endsWith('so there is nothing to check')], [2, true]);
  });
});
