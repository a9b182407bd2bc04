// `causeway dns` on a machine of its own: port 53, addresses that come and go, the machine's resolver and its hosts file.

import assert from 'node:assert/strict';
import { copyFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { findProgram, missingPrograms } from '../../testbed/packages.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';

const LATER = '10.99.99.1';
const NAMED = 'named-in-hosts.lab.test';
const config = (...hosts: readonly string[]) => `listen: [":6443"]
clusters: [{ name: lab, api: { hosts: ${JSON.stringify(hosts)}, backends: ["192.0.2.1:6443"] } }]
`;

describe('causeway dns on a machine', { skip: missingPrograms('dig') || missingNetns() }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let machine: Netns;

  before(async () => {
    dir = stack.use(await tempDir());
    machine = stack.use(await netns({ name: 'dns', resolver: '127.0.0.1', names: [NAMED] }));
    await writeFile(dir.file('causeway.yaml'), config('api.lab.test', '*.apps.lab.test'));
    const flags = ['-c', dir.file('causeway.yaml'), '--on', ':53', '--address', '203.0.113.10'];
    stack.use(
      await machine.start({
        command: causewayBin,
        args: ['dns', 'serve', ...flags],
        ready: { log: /"msg":"ready"/ },
      }),
    );
  });
  after(() => stack.disposeAsync());

  async function ask(server: string, ...flags: readonly string[]): Promise<string> {
    const args = ['-r', `@${server}`, '+short', '+tries=1', '+time=1', 'api.lab.test', ...flags];
    return (await machine.run('dig', args)).stdout.toString().trim();
  }

  test('answers on each of its addresses, from that address', async () => {
    const addresses = [
      '127.0.0.1',
      machine.address,
      ...(machine.address6 === undefined ? [] : [machine.address6]),
    ];
    // dig does not take an answer from another address.
    for (const address of addresses)
      await until(
        address,
        async () =>
          (await ask(address)) === '203.0.113.10' && (await ask(address, '+tcp')) === '203.0.113.10',
      );
  });

  test('answers on an address that comes later, until it goes', async () => {
    assert.notEqual(await ask(LATER), '203.0.113.10');
    await machine.run('ip', ['address', 'add', `${LATER}/32`, 'dev', 'lo']);
    await until('the new address', async () => (await ask(LATER)) === '203.0.113.10');
    await machine.run('ip', ['address', 'delete', `${LATER}/32`, 'dev', 'lo']);
    assert.equal(await ask('127.0.0.1'), '203.0.113.10');
  });

  async function check(
    address: string,
    ...hosts: readonly string[]
  ): Promise<[code: number | null, text: string]> {
    await writeFile(dir.file('check.yaml'), config(...hosts));
    const args = ['dns', 'check', '-c', dir.file('check.yaml'), '--address', address];
    const { code, stdout } = await machine.run(causewayBin, args);
    return [code, stdout.toString()];
  }

  test("check asks the machine's own resolver", async () => {
    const [code, text] = await check('203.0.113.10', 'api.lab.test', '*.apps.lab.test');
    assert.equal(code, 0, text);
    const [wrong, why] = await check('203.0.113.99', 'api.lab.test');
    assert.equal(wrong, 1);
    assert.match(why, /^elsewhere\s+api\.lab\.test\s+A\s+leads to 203\.0\.113\.10, not to 203\.0\.113\.99$/m);
  });

  test('check reads the hosts file first, as programs do', async () => {
    const [code, text] = await check(machine.machine, NAMED);
    assert.equal(code, 0, text);
  });
});

test("doctor has TTL and CNAMEs from the machine's DNS server", {
  skip: missingPrograms('named') || missingNetns(),
}, async () => {
  await using dir = await tempDir();
  await using machine = await netns({ name: 'ttl', resolver: '127.0.0.1' });
  // Debian's and Ubuntu's AppArmor profile lets /usr/sbin/named read only the machine's own files.
  await copyFile(findProgram('named') ?? 'named', dir.file('named'));
  await writeFile(
    dir.file('named.conf'),
    `options { directory "${dir.path}"; listen-on { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; lock-file none; session-keyfile none; recursion no; };
controls { };
zone "lab.test" { type primary; file "lab.zone"; };
`,
  );
  await writeFile(
    dir.file('lab.zone'),
    '$TTL 86400\n@ SOA ns hostmaster 1 3600 600 86400 1\n@ NS ns\nns A 127.0.0.1\napi CNAME gateway\ngateway A 203.0.113.10\n',
  );
  await using _named = await machine.start({
    command: dir.file('named'),
    args: ['-g', '-n', '1', '-c', dir.file('named.conf')],
    ready: { log: / running$/m },
    stopSignal: 'SIGKILL',
  });
  await writeFile(dir.file('causeway.yaml'), config('api.lab.test'));
  const findings = async (address: string) => {
    const args = ['doctor', '-c', dir.file('causeway.yaml'), '--address', `${address}:6443`, '--json'];
    const { stdout } = await machine.run(causewayBin, args);
    const { checks } = JSON.parse(stdout.toString()) as { checks: Record<string, string>[] };
    return checks.filter(({ step }) => step === 'dns').map(({ code, text }) => `${code}: ${text}`);
  };
  assert.deepEqual(await findings('203.0.113.10'), [
    'DnsTtlLong: api.lab.test leads to the gateway, with a TTL of 86400 s: use 300 s or less, by CNAME to gateway.lab.test',
  ]);
  assert.deepEqual(await findings('203.0.113.99'), [
    'DnsElsewhere: api.lab.test leads to 203.0.113.10, not to 203.0.113.99, by CNAME to gateway.lab.test',
  ]);
});
