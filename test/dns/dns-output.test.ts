// The output dnsServer: `causeway run` answers for the hosts that it serves, of the file and of sources.

import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { dig } from './start-dns.ts';

const GATEWAY = ['203.0.113.10'];

function config(outputs: string, hosts: readonly string[] = ['api.lab.test'], more = ''): string {
  return `listen: ["127.0.0.1:0"]
clusters:
  - { name: lab, api: { hosts: [${hosts.join(', ')}], backends: ["192.0.2.1:6443"] } }
outputs: [${outputs}]
${more}`;
}

const dnsServer = (on: string, more = '') => `{ dnsServer: { on: "${on}", addresses: [${GATEWAY}]${more} } }`;

function dnsPorts(gateway: Causeway): readonly number[] {
  const ready = gateway.lines().find(({ msg }) => msg === 'ready');
  return ((ready?.dns ?? []) as string[]).map(address => Number(address.slice(address.lastIndexOf(':') + 1)));
}

const applied = (gateway: Causeway) => gateway.lines().filter(({ msg }) => msg === 'applied').length;

async function edit(gateway: Causeway, text: string): Promise<void> {
  const before = applied(gateway);
  await gateway.write(text);
  await until('the edit', () => applied(gateway) > before);
}

describe('dnsServer', { skip: missingPrograms('dig') }, () => {
  test('answers for what is served, follows the file, and counts', async () => {
    const on = '127.0.0.1:0';
    await using gateway = await startCauseway({ config: config(dnsServer(on, ', ttl: 5s')) });
    const [port] = dnsPorts(gateway);
    const first = await dig(port, 'api.lab.test', 'A');
    assert.deepEqual([first.status, first.data], ['NOERROR', GATEWAY]);
    assert.match(first.text, /^api\.lab\.test\.\s+5\s/m);
    assert.equal((await dig(port, 'new.lab.test', 'A')).status, 'NXDOMAIN');
    await edit(gateway, config(dnsServer(on), ['api.lab.test', 'new.lab.test']));
    await until(
      'the new host',
      async () => String((await dig(port, 'new.lab.test', 'A')).data) === '203.0.113.10',
    );
    await edit(gateway, config(dnsServer(on), ['new.lab.test']));
    await until(
      'the old host to go',
      async () => (await dig(port, 'api.lab.test', 'A')).status === 'NXDOMAIN',
    );
    assert.ok((await gateway.metric('causeway_dns_queries_total', { rcode: 'NOERROR' })) >= 2);
    assert.ok((await gateway.metric('causeway_dns_queries_total', { rcode: 'NXDOMAIN' })) >= 2);
  });

  test('follows clusters of a source', async () => {
    await using dir = await tempDir();
    await mkdir(dir.file('clusters'));
    const more = `sources: [{ directory: { path: ${dir.file('clusters')} } }]`;
    await using gateway = await startCauseway({ config: config(dnsServer('127.0.0.1:0'), undefined, more) });
    const [port] = dnsPorts(gateway);
    await until(
      'the directory to be listed',
      async () => (await dig(port, 'b.lab.test', 'A')).status === 'NXDOMAIN',
    );
    const cluster = 'clusters: [{ name: b, api: { hosts: [b.lab.test], backends: ["192.0.2.2:6443"] } }]\n';
    await writeFile(dir.file('clusters/b.yaml'), cluster);
    await until(
      'its cluster',
      async () => String((await dig(port, 'b.lab.test', 'A')).data) === '203.0.113.10',
    );
    await rm(dir.file('clusters/b.yaml'));
    await until('its end', async () => (await dig(port, 'b.lab.test', 'A')).status === 'NXDOMAIN');
  });

  test('outputs come and go with the file; one whose port is taken refuses the edit as a whole', async () => {
    const [one, two] = [await freePort(), await freePort()];
    await using gateway = await startCauseway({ config: config('') });
    assert.deepEqual(dnsPorts(gateway), []);
    await edit(gateway, config([dnsServer(`127.0.0.1:${one}`), dnsServer(`127.0.0.1:${two}`)].join(', ')));
    for (const port of [one, two]) assert.deepEqual((await dig(port, 'api.lab.test', 'A')).data, GATEWAY);

    await using stack = new AsyncDisposableStack();
    const taken = stack.use(createServer());
    await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve));
    const { port: busy } = taken.address() as { port: number };
    await gateway.write(config(dnsServer(`127.0.0.1:${busy}`), ['other.lab.test']));
    const refused = await gateway.line(({ level }) => level === 'error');
    assert.match(
      String(refused.error),
      new RegExp(`Cannot listen on '127.0.0.1:${busy} \\(dnsServer\\.on\\)'.*in use`),
    );
    for (const port of [one, two]) assert.deepEqual((await dig(port, 'api.lab.test', 'A')).data, GATEWAY);

    await edit(gateway, config(dnsServer(`127.0.0.1:${two}`), ['other.lab.test']));
    await until('the change', async () => (await dig(two, 'other.lab.test', 'A')).data.length === 1);
    await until(
      'the first to be closed',
      async () => (await dig(one, 'api.lab.test', 'A')).status === 'none',
    );
  });

  test('a port that is taken, over UDP too → 2', async () => {
    await using dir = await tempDir();
    await using stack = new AsyncDisposableStack();
    const taken = createSocket('udp4');
    stack.defer(() => void taken.close());
    await new Promise<void>(resolve => taken.bind(0, '127.0.0.1', resolve));
    const on = `127.0.0.1:${taken.address().port}`;
    const file = dir.file('causeway.yaml');
    await writeFile(file, `admin: { on: "off" }\n${config(dnsServer(on))}`);
    const { code, stderr } = await run(causewayBin, ['run', '-c', file]);
    assert.deepEqual(
      [code, stderr.split(';')[0]],
      [2, `Cannot listen on '${on} (dnsServer.on)': address already in use by another process`],
    );
  });

  test('two outputs on one port, and one without addresses, are mistakes', async () => {
    await using dir = await tempDir();
    const file = dir.file('causeway.yaml');
    const none = '{ dnsServer: { on: ":54", addresses: [] } }';
    await writeFile(file, config([dnsServer(':53'), dnsServer('127.0.0.1:53'), none].join(', ')));
    const { code, stderr } = await run(causewayBin, ['check', '-c', file]);
    assert.equal(code, 1);
    assert.match(stderr, /outputs\[1\]\.dnsServer\.on: "127\.0\.0\.1:53" overlaps ":53" at/);
    assert.match(stderr, /outputs\[2\]\.dnsServer\.addresses: must have the addresses of this gateway/);
  });

  test('a process that replaces another takes over, and no query is lost for long', async () => {
    await using dir = await tempDir();
    const on = `127.0.0.1:${await freePort()}`;
    const port = Number(on.split(':')[1]);
    const text = (host: string) =>
      config(dnsServer(on), ['api.lab.test', host], `runDir: ${dir.file('run')}`);
    await using old = await startCauseway({ config: text('old.lab.test') });
    await using _ = await startCauseway({ config: text('new.lab.test'), args: ['--replace'] });
    await old.program.ended;
    for (let i = 0; i < 20; i++)
      assert.deepEqual((await dig(port, 'new.lab.test', 'A', '+tries=3')).data, GATEWAY);
    assert.equal((await dig(port, 'old.lab.test', 'A')).status, 'NXDOMAIN');
  });
});
