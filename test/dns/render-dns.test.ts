// `causeway render dns`, loaded into the real servers: every host leads to the gateway, in both families, and nothing else
// does.

import assert from 'node:assert/strict';
import { copyFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { parse as parseYaml } from 'yaml';
import { freePort } from '../../testbed/free-port.ts';
import { goBuild } from '../../testbed/go-build.ts';
import { findProgram, missingPrograms } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';

const CONFIG = `
listen: [":6443"]
clusters:
  - name: hub
    api: { hosts: [api.hub.linuxera.lab], backends: ["192.0.2.1:6443"] }
    apps: { hosts: ["*.apps.hub.linuxera.lab"], https: ["192.0.2.1:443"], http: redirect }
    routes: { deep: { hosts: [a.b.apps.hub.linuxera.lab], backends: ["192.0.2.1:443"] } }
  - { name: tenant, api: { hosts: [tenant-01.k8s.example.com], backends: ["192.0.2.2:6443"] } }
`;
const ADDRESSES = { A: ['203.0.113.10', '203.0.113.11'], AAAA: ['2001:db8::10'] };
/** Hosts, and names that wildcards stand for. */
const SERVED = [
  'api.hub.linuxera.lab',
  'console.apps.hub.linuxera.lab',
  'b.apps.hub.linuxera.lab',
  'a.b.apps.hub.linuxera.lab',
  'tenant-01.k8s.example.com',
];
const NOT_SERVED = ['other.hub.linuxera.lab', 'tenant-02.k8s.example.com'];

let dir: TempDir;
before(async () => {
  dir = await tempDir();
  await writeFile(dir.file('causeway.yaml'), CONFIG);
});
after(() => dir[Symbol.asyncDispose]());

async function render(format: string, addresses = Object.values(ADDRESSES).flat()): Promise<string> {
  const flags = addresses.flatMap(address => ['--address', address]);
  const args = ['render', 'dns', '-c', dir.file('causeway.yaml'), '--format', format, ...flags];
  const { code, stdout, stderr } = await run(causewayBin, args);
  assert.deepEqual([code, stderr], [0, '']);
  return stdout.toString();
}

async function dig(port: number, name: string, type: string): Promise<{ status: string; data: string[] }> {
  const { stdout } = await run('dig', [
    '@127.0.0.1',
    '-p',
    String(port),
    '+noall',
    '+comments',
    '+answer',
    name,
    type,
  ]);
  const lines = stdout.toString().split('\n');
  const status = /status: (\w+)/.exec(stdout.toString())?.[1] ?? 'none';
  const answers = lines.filter(line => line !== '' && !line.startsWith(';')).map(line => line.split(/\s+/));
  return {
    status,
    data: answers
      .filter(fields => fields[3] === type)
      .map(fields => fields[4])
      .toSorted(),
  };
}

async function answersRight(port: number): Promise<void> {
  for (const name of SERVED) {
    for (const type of ['A', 'AAAA'] as const)
      assert.deepEqual(
        await dig(port, name, type),
        { status: 'NOERROR', data: ADDRESSES[type] },
        `${name} ${type}`,
      );
    assert.deepEqual(await dig(port, name, 'TXT'), { status: 'NOERROR', data: [] }, `${name} TXT`);
  }
}

describe('render dns', { skip: missingPrograms('dig', 'named', 'dnsmasq') }, () => {
  test('bind: a zone file for each zone, which named loads', async () => {
    const parts = (await render('bind')).split(/^(?=; Zone )/m);
    const names = parts.map(part => /^; Zone (\S+):/.exec(part)?.[1] ?? '');
    assert.deepEqual(names, ['hub.linuxera.lab', 'k8s.example.com']);
    const port = await freePort();
    for (const [i, name] of names.entries()) {
      await writeFile(dir.file(`${name}.zone`), parts[i]);
      const { code, stdout } = await run('named-checkzone', ['-i', 'full', name, dir.file(`${name}.zone`)]);
      assert.equal(code, 0, stdout.toString());
    }
    const zones = names.map(name => `zone "${name}" { type primary; file "${dir.file(`${name}.zone`)}"; };`);
    await writeFile(
      dir.file('named.conf'),
      `options { directory "${dir.path}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; pid-file none; session-keyfile none; };
controls { };
${zones.join('\n')}\n`,
    );
    // AppArmor lets the installed one read only the machine's own files.
    await copyFile(findProgram('named') ?? 'named', dir.file('named'));
    await using _ = await startProgram({
      command: dir.file('named'),
      args: ['-g', '-n', '1', '-c', dir.file('named.conf')],
      cwd: dir.path,
      ready: { log: / running$/m },
      stopSignal: 'SIGKILL',
    });
    await answersRight(port);
    for (const name of NOT_SERVED) assert.equal((await dig(port, name, 'A')).status, 'NXDOMAIN', name);
  });

  test('coredns: a Corefile', async () => {
    const port = await freePort();
    const corefile = (await render('coredns')).replaceAll(':53 {', `:${port} {\n    bind 127.0.0.1`);
    await writeFile(dir.file('Corefile'), corefile);
    await using _ = await startProgram({
      command: await goBuild('coredns'),
      args: ['-conf', dir.file('Corefile')],
      cwd: dir.path,
      ready: { log: /^CoreDNS-\d/m },
      stopSignal: 'SIGKILL',
    });
    await answersRight(port);
    for (const name of NOT_SERVED) assert.equal((await dig(port, name, 'A')).status, 'NXDOMAIN', name);
    // A resolver that minimizes names asks for these first (RFC 9156).
    for (const name of ['hub.linuxera.lab', 'apps.hub.linuxera.lab', 'k8s.example.com'])
      for (const type of ['A', 'NS'] as const)
        assert.equal((await dig(port, name, type)).status, 'NOERROR', name);
    assert.deepEqual((await dig(port, 'k8s.example.com', 'NS')).data, ['ns.k8s.example.com.']);
    assert.equal((await dig(port, 'k8s.example.com', 'SOA')).data.length, 1);
  });

  test('dnsmasq: asks nobody else, also where an address of that family is missing', async () => {
    const port = await freePort();
    const start = async (text: string) => {
      await writeFile(dir.file('dnsmasq.conf'), text);
      const own = [
        '--keep-in-foreground',
        '--no-resolv',
        '--no-hosts',
        '--listen-address=127.0.0.1',
        '--bind-interfaces',
      ];
      return startProgram({
        command: findProgram('dnsmasq') ?? 'dnsmasq',
        args: [
          ...own,
          '--log-facility=-',
          '--user=root',
          `--port=${port}`,
          `--conf-file=${dir.file('dnsmasq.conf')}`,
        ],
        cwd: dir.path,
        ready: { log: /started/ },
        stopSignal: 'SIGKILL',
      });
    };
    {
      await using _ = await start(await render('dnsmasq'));
      for (const name of SERVED)
        for (const type of ['A', 'AAAA'] as const)
          assert.deepEqual((await dig(port, name, type)).data, ADDRESSES[type], `${name} ${type}`);
    }
    await using _ = await start(await render('dnsmasq', ADDRESSES.A));
    for (const name of SERVED) assert.deepEqual((await dig(port, name, 'AAAA')).data, [], name);
  });

  /** What every record says, as `name address`; hidden names among them. */
  const RECORDS = [...SERVED.filter(name => !name.startsWith('console.')), '*.apps.hub.linuxera.lab']
    .flatMap(name => Object.values(ADDRESSES).flatMap(own => own.map(address => `${name} ${address}`)))
    .toSorted();

  test('windows: commands of the module DnsServer, by their parameters', async () => {
    const record =
      /^Add-DnsServerResourceRecord(A|AAAA) -ZoneName "([\w.-]+)" -Name "([\w.*-]+|@)" -IPv([46])Address "([\da-f.:]+)" -TimeToLive \(New-TimeSpan -Seconds 60\)$/;
    const zone = /^Add-DnsServerPrimaryZone -Name "([\w.-]+)" -ZoneFile "\1\.dns"$/;
    const lines = (await render('windows')).trim().split('\n');
    const commands = lines.filter(line => !line.startsWith('#') && !zone.test(line));
    const found = commands.map(line => {
      const [, type, zoneName, name, version, address] = record.exec(line) ?? assert.fail(line);
      assert.equal(type, version === '4' ? 'A' : 'AAAA');
      return `${name === '@' ? '' : `${name}.`}${zoneName} ${address}`;
    });
    assert.deepEqual(found.toSorted(), RECORDS);
    assert.equal(lines.filter(line => zone.test(line)).length, 2);
  });

  test('infoblox: objects of the WAPI, and the same as CSV with its headers', async () => {
    const text = await render('infoblox');
    const objects = [...text.matchAll(/^wapi record:(a|aaaa) '(.+)'$/gm)].map(([, type, json]) => {
      const { name, ttl, use_ttl: useTtl, view, ...address } = JSON.parse(json) as Record<string, unknown>;
      assert.deepEqual([ttl, useTtl, view], [60, true, 'default']);
      assert.deepEqual(Object.keys(address), [type === 'a' ? 'ipv4addr' : 'ipv6addr']);
      return `${name} ${Object.values(address)}`;
    });
    assert.deepEqual(objects.toSorted(), RECORDS);
    const csv = text.slice(text.indexOf('CSV Import')).split('\n').slice(1);
    const rows = csv.map(line => line.replace(/^# /, '').split(',')).filter(row => row.length > 1);
    const heads = rows.filter(([kind]) => kind.startsWith('header-'));
    assert.deepEqual(heads, [
      ['header-arecord', 'address*', 'fqdn*', 'ttl', 'view'],
      ['header-aaaarecord', 'address*', 'fqdn*', 'ttl', 'view'],
    ]);
    const records = rows.filter(([kind]) => /^a(aaa)?record$/.test(kind));
    assert.deepEqual(records.map(([, address, name]) => `${name} ${address}`).toSorted(), RECORDS);
    assert.equal(heads.length + records.length, rows.length);
  });

  test('cloudflare: records of its API, none of them proxied; cloudflared: a rule for each host', async () => {
    const calls = [...(await render('cloudflare')).matchAll(/^record '(.+)'$/gm)].map(([, json]) => {
      const { type, name, content, ttl, proxied } = JSON.parse(json) as Record<string, unknown>;
      assert.deepEqual([ttl, proxied], [60, false]);
      assert.equal(type, String(content).includes(':') ? 'AAAA' : 'A');
      return `${name} ${content}`;
    });
    assert.deepEqual(calls.toSorted(), RECORDS);
    const { ingress } = parseYaml(await render('cloudflared')) as {
      ingress: { hostname?: string; service: string; originRequest?: { matchSNItoHost: boolean } }[];
    };
    const last = ingress.pop();
    assert.equal(last?.service, 'http_status:404');
    for (const { service, originRequest } of ingress)
      assert.deepEqual([service, originRequest?.matchSNItoHost], ['https://203.0.113.10:6443', true]);
    assert.deepEqual(ingress.map(({ hostname }) => hostname).toSorted(), [
      '*.apps.hub.linuxera.lab',
      'a.b.apps.hub.linuxera.lab',
      'api.hub.linuxera.lab',
      'tenant-01.k8s.example.com',
    ]);
  });

  test('the other formats name every host', async () => {
    for (const format of ['windows', 'infoblox', 'cloudflare', 'cloudflared', 'hosts']) {
      const text = await render(format);
      for (const host of ['api.hub', '*.apps.hub', 'a.b.apps.hub', 'tenant-01.k8s'])
        assert.ok(
          text.includes(format === 'windows' ? host.replace(/\.(hub|k8s)$/, '') : host),
          `${format}: ${host}`,
        );
      if (format === 'cloudflare') assert.match(text, /^ZONE_ID=\$ZONE_ID_2$/m);
      if (format === 'infoblox' || format === 'cloudflare') {
        await writeFile(dir.file('script'), text);
        const { code, stderr } = await run('sh', ['-n', dir.file('script')]);
        assert.equal(code, 0, stderr);
      }
    }
  });
});
