// `causeway dns serve`, asked by dig, by a resolver in front of it, and by those who mean harm.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import * as fc from 'fast-check';
import { lookupAt } from '../../src/dns/dns-client.ts';
import { buildDnsQuery, parseDnsMessage } from '../../src/wire/dns-message.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { startBind } from '../../testbed/start-bind.ts';
import { startBindResolver } from '../../testbed/start-bind-resolver.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { type Dns, dig, startDns } from './start-dns.ts';

const config = (more = '') => `
listen: [":6443"]
clusters:
  - name: hub
    api: { hosts: [api.hub.linuxera.lab], backends: ["192.0.2.1:6443"] }
    apps: { hosts: ["*.apps.hub.linuxera.lab"], https: ["192.0.2.1:443"], http: redirect }
    routes: { deep: { hosts: [a.b.apps.hub.linuxera.lab], backends: ["192.0.2.1:443"] } }
  - { name: tenant, api: { hosts: [tenant-01.k8s.example.com], backends: ["192.0.2.2:6443"] } }
${more}`;
const A = ['203.0.113.10', '203.0.113.11'];
const AAAA = ['2001:db8::10'];
const FLAGS = [...A, ...AAAA].flatMap(address => ['--address', address]);
/** Hosts, and names that a wildcard stands for. */
const SERVED = [
  'api.hub.linuxera.lab',
  'console.apps.hub.linuxera.lab',
  'two.labels.apps.hub.linuxera.lab',
  'a.b.apps.hub.linuxera.lab',
  'tenant-01.k8s.example.com',
];

describe('causeway dns serve', { skip: missingPrograms('dig', 'named') }, () => {
  let dns: Dns;
  before(async () => {
    dns = await startDns(config(), FLAGS);
  });
  after(() => dns[Symbol.asyncDispose]());

  test('answers for every host over UDP and TCP, with and without EDNS', async () => {
    for (const name of SERVED) {
      for (const how of ['+notcp', '+tcp', '+noedns', '+cookie', '+bufsize=512']) {
        const both = [await dig(dns.port, name, 'A', how), await dig(dns.port, name, 'AAAA', how)];
        assert.deepEqual(
          both.map(({ status, flags, data }) => [status, flags, ...data]),
          [
            ['NOERROR', 'qr aa', ...A],
            ['NOERROR', 'qr aa', ...AAAA],
          ],
          `${name} ${how}`,
        );
      }
    }
  });

  test('answers NODATA and NXDOMAIN with the SOA, and REFUSED for other zones', async () => {
    const soa = ['hub.linuxera.lab. SOA'];
    const cases: readonly [name: string, type: string, status: string, authority: string[]][] = [
      ['api.hub.linuxera.lab', 'TXT', 'NOERROR', soa],
      ['apps.hub.linuxera.lab', 'A', 'NOERROR', soa],
      ['b.apps.hub.linuxera.lab', 'A', 'NOERROR', soa],
      ['x.b.apps.hub.linuxera.lab', 'A', 'NXDOMAIN', soa],
      ['x.api.hub.linuxera.lab', 'A', 'NXDOMAIN', soa],
      ['other.hub.linuxera.lab', 'A', 'NXDOMAIN', soa],
      ['tenant-02.k8s.example.com', 'A', 'NXDOMAIN', ['k8s.example.com. SOA']],
      ['linuxera.lab', 'A', 'REFUSED', []],
      ['example.org', 'A', 'REFUSED', []],
      ['.', 'NS', 'REFUSED', []],
    ];
    for (const [name, type, status, authority] of cases) {
      const dug = await dig(dns.port, name, type);
      assert.deepEqual([dug.status, dug.data, dug.authority], [status, [], authority], `${name} ${type}`);
    }
  });

  test('has SOA and NS at the apex, and an address for its name server', async () => {
    const { data } = await dig(dns.port, 'hub.linuxera.lab', 'SOA');
    assert.match(
      data[0],
      /^ns\.hub\.linuxera\.lab\. hostmaster\.hub\.linuxera\.lab\. \d{10} 3600 900 604800 60$/,
    );
    assert.deepEqual((await dig(dns.port, 'hub.linuxera.lab', 'NS')).data, ['ns.hub.linuxera.lab.']);
    assert.deepEqual((await dig(dns.port, 'ns.hub.linuxera.lab', 'A')).data, A);
  });

  test('keeps to the rules for what is rarely asked', async () => {
    const { port } = dns;
    const name = 'api.hub.linuxera.lab';
    assert.deepEqual((await dig(port, name, 'ANY')).data, ['"RFC8482" ""']);
    assert.equal((await dig(port, 'hub.linuxera.lab', 'AXFR')).data.length, 0);
    assert.equal((await dig(port, 'CH', 'TXT', 'version.bind')).status, 'REFUSED');
    assert.equal((await dig(port, name, '+opcode=notify')).status, 'NOTIMP');
    assert.equal((await dig(port, name, '+opcode=update')).status, 'NOTIMP');
    assert.equal((await dig(port, name, '+header-only')).status, 'FORMERR');
    const version = await dig(port, name, '+edns=1', '+noednsnegotiation');
    assert.deepEqual([version.status, version.data], ['BADVERS', []]);
    const options = await dig(port, name, '+ednsopt=100:deadbeef', '+dnssec', '+padding=128');
    assert.deepEqual(options.data, A);
    assert.match(options.text, /EDNS: version: 0, flags: do; udp: 1232/);
    assert.match((await dig(port, 'API.hub.LinuxEra.LAB', 'A')).text, /^API\.hub\.LinuxEra\.LAB\.\s+60/m);
  });

  test('a resolver in front resolves every host, over 0x20 and with a cache', async () => {
    await using resolver = await startBindResolver({
      zones: ['hub.linuxera.lab', 'k8s.example.com'],
      to: dns.port,
    });
    for (const name of SERVED) {
      assert.deepEqual((await dig(resolver.port, name, 'A', '+recurse')).data, A, name);
      assert.deepEqual((await dig(resolver.port, name, 'AAAA', '+recurse')).data, AAAA, name);
    }
    const missing = await dig(resolver.port, 'other.hub.linuxera.lab', 'A', '+recurse');
    assert.deepEqual([missing.status, missing.authority], ['NXDOMAIN', ['hub.linuxera.lab. SOA']]);
  });

  test('answers as BIND does with the same hosts in its zones, whatever they are', async () => {
    const label = fc.constantFrom('a', 'b', 'c', 'apps');
    const host = fc
      .tuple(fc.boolean(), fc.array(label, { minLength: 1, maxLength: 4 }))
      .map(([isWildcard, labels]) => `${isWildcard ? '*.' : ''}${labels.join('.')}.lab.test`);
    for (const hosts of fc.sample(fc.uniqueArray(host, { minLength: 2, maxLength: 8 }), {
      numRuns: 6,
      seed: 14,
    })) {
      const records = hosts.map(each => `${each}. IN A ${A[0]}`);
      await using bind = await startBind({ zones: { 'lab.test': records.join('\n') } });
      const file = `listen: [":1"]\nclusters: [{ name: x, api: { hosts: ${JSON.stringify(hosts)}, backends: ["192.0.2.1:1"] } }]\n`;
      await using own = await startDns(file, ['--address', A[0], '--zone', 'lab.test']);
      const at = (port: number) => lookupAt([{ address: '127.0.0.1', port }]);
      const names = fc.sample(
        fc
          .array(fc.oneof(label, fc.constantFrom('x', '*')), { maxLength: 5 })
          .map(labels => [...labels, 'lab.test'].join('.')),
        { numRuns: 150, seed: 14 },
      );
      for (const name of new Set(names)) {
        for (const type of ['A', 'AAAA'] as const) {
          const [theirs, ours] = await Promise.all([at(bind.port)(name, type), at(own.port)(name, type)]);
          assert.deepEqual(ours, theirs, `${name} ${type} with ${hosts.join(' ')}`);
        }
      }
    }
  });

  test('survives datagrams of every kind, and keeps answering', async () => {
    const socket = createSocket('udp4');
    let answers = 0;
    socket.on('message', message => {
      answers++;
      assert.ok(message[2] & 0x80, 'an answer');
    });
    const query = Buffer.from(buildDnsQuery({ id: 7, name: 'api.hub.linuxera.lab', type: 1 }));
    const response = Buffer.from(query);
    response[2] |= 0x80;
    const loop = Buffer.concat([query.subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1])]);
    const hostile = [response, loop, Buffer.alloc(0), Buffer.alloc(12), randomBytes(1400)];
    for (let cut = 0; cut < query.length; cut++) hostile.push(query.subarray(0, cut));
    for (let i = 0; i < 500; i++) hostile.push(randomBytes(i));
    for (let i = 0; i < 2000; i++) {
      const mutated = Buffer.from(query);
      mutated[i % query.length] = i & 0xff;
      hostile.push(mutated);
    }
    for (const [i, bytes] of hostile.entries()) {
      socket.send(bytes, dns.port, '127.0.0.1');
      if (i % 50 === 0) await new Promise(setImmediate);
    }
    assert.deepEqual((await dig(dns.port, 'api.hub.linuxera.lab', 'A')).data, A);
    assert.ok(answers > 500, `${answers} answers`);
    socket.close();
    assert.ok(!dns.lines().some(({ msg }) => /fault|ended/.test(msg)));
  });

  test('a response is never answered', async () => {
    const socket = createSocket('udp4');
    const received: number[] = [];
    socket.on('message', message => received.push(message.readUInt16BE(0)));
    const query = Buffer.from(buildDnsQuery({ id: 1, name: 'api.hub.linuxera.lab', type: 1 }));
    const response = Buffer.from(query);
    response[2] |= 0x80;
    response.writeUInt16BE(2, 0);
    socket.send(response, dns.port, '127.0.0.1');
    socket.send(query, dns.port, '127.0.0.1');
    await once(socket, 'message');
    // The answer to the query that came second is here; the thread answers in order.
    assert.deepEqual(received, [1]);
    socket.close();
  });

  async function open(): Promise<Socket> {
    const socket = connect(dns.port, '127.0.0.1');
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }

  test('answers pipelined queries over TCP, however they are split', async () => {
    const socket = await open();
    const queries = Array.from({ length: 100 }, (_, i) => {
      const query = buildDnsQuery({ id: i, name: SERVED[i % SERVED.length], type: 1 });
      return Buffer.concat([Uint8Array.of(0, query.length), query]);
    });
    const bytes = Buffer.concat(queries);
    for (let at = 0; at < bytes.length; at += 37) socket.write(bytes.subarray(at, at + 37));
    let received = Buffer.alloc(0);
    const ids: number[] = [];
    while (ids.length < queries.length) {
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      received = Buffer.concat([received, chunk]);
      while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
        const end = 2 + received.readUInt16BE(0);
        const parsed = parseDnsMessage(received, 2, end);
        assert.ok(parsed.kind === 'found' && parsed.value.answers.length === A.length);
        ids.push(parsed.value.id);
        received = received.subarray(end);
      }
    }
    assert.deepEqual(ids, [...queries.keys()]);
    socket.destroy();
  });

  test('closes TCP connections that send what is no query', async () => {
    for (const bytes of [
      Buffer.alloc(65_537, 0xff),
      Buffer.from([0, 5, 1, 2, 3, 4, 5]),
      Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
    ]) {
      const socket = await open();
      socket.resume().write(bytes);
      // Maybe with a reset, which once() would take for an error.
      await new Promise(resolve => socket.on('close', resolve));
    }
    assert.deepEqual((await dig(dns.port, 'api.hub.linuxera.lab', 'A', '+tcp')).data, A);
  });

  test('takes a bounded number of TCP connections from one source, and others still', async () => {
    const sockets = await Promise.all(Array.from({ length: 40 }, open));
    let closed = 0;
    await new Promise<void>(resolve => {
      for (const socket of sockets) {
        socket.resume().on('close', () => {
          if (++closed === 8) resolve();
        });
      }
    });
    const other = await dig(dns.port, '-b', '127.0.0.2', 'api.hub.linuxera.lab', 'A', '+tcp');
    assert.deepEqual(other.data, A);
    assert.deepEqual((await dig(dns.port, 'api.hub.linuxera.lab', 'A')).data, A);
    for (const socket of sockets) socket.destroy();
  });

  test('a client that reads nothing gets no more than a bounded amount of answers', async () => {
    const socket = await open();
    const query = buildDnsQuery({ id: 1, name: SERVED[0], type: 1 });
    const one = Buffer.concat([Uint8Array.of(0, query.length), query]);
    const many = Buffer.concat(Array.from({ length: 2000 }, () => one));
    // The kernel takes a few MiB for both sides; then the server no longer reads.
    let taken = 0;
    const isFull = async () => !socket.write(many) && !(await drains(socket));
    while (taken < 1000 && !(await isFull())) taken++;
    assert.ok(taken < 1000, 'it reads without being read');
    assert.deepEqual((await dig(dns.port, 'api.hub.linuxera.lab', 'A')).data, A);
    socket.destroy();
  });

  test('keeps answering during a flood', async () => {
    const query = buildDnsQuery({ id: 1, name: SERVED[1], type: 1 });
    const socket = createSocket('udp4');
    let sent = 0;
    const over = new AbortController();
    const flood = async () => {
      while (!over.signal.aborted) {
        for (let i = 0; i < 100; i++, sent++) socket.send(query, dns.port, '127.0.0.1');
        await new Promise(setImmediate);
      }
    };
    const flooding = flood();
    try {
      for (let i = 0; i < 10; i++) {
        // The kernel drops datagrams for a socket that is full, whoever sent them: hence the tries.
        for (const how of [['+tcp'], ['+time=1', '+tries=30']]) {
          assert.deepEqual((await dig(dns.port, 'api.hub.linuxera.lab', 'A', ...how)).data, A, how.join(' '));
        }
      }
    } finally {
      over.abort();
      await flooding;
      socket.close();
    }
    assert.ok(sent > 1000, `${sent} queries`);
  });
});

/** Whether it can be written again within a moment. */
async function drains(socket: Socket): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(resolve, 500, false);
  socket.once('drain', () => resolve(true));
  const result = await promise;
  clearTimeout(timer);
  return result;
}

describe('causeway dns serve: file and flags', { skip: missingPrograms('dig') }, () => {
  test('an edit changes the answers at once, and a bad one does not', async () => {
    await using dns = await startDns(config(), FLAGS);
    const name = 'api.new.example.com';
    const serial = async () => Number((await dig(dns.port, 'k8s.example.com', 'SOA')).data[0].split(' ')[2]);
    const before = await serial();
    assert.equal((await dig(dns.port, name, 'A')).status, 'REFUSED');
    const cluster = `  - { name: new, api: { hosts: [tenant-02.k8s.example.com], backends: ["192.0.2.3:6443"] } }`;
    await dns.write(config(cluster));
    const written = performance.now();
    await dns.line(({ msg }) => msg === 'applied');
    // A second on a quiet machine.
    assert.ok(performance.now() - written < 10_000);
    assert.deepEqual((await dig(dns.port, 'tenant-02.k8s.example.com', 'A')).data, A);
    assert.ok((await serial()) > before);
    for (const bad of ['clusters: 5\n', 'listen: [":6443"]\nclusters: []\n']) {
      const count = dns.lines().filter(({ level }) => level === 'error').length;
      await dns.write(bad);
      await dns.line(() => dns.lines().filter(({ level }) => level === 'error').length > count);
      assert.deepEqual((await dig(dns.port, 'tenant-02.k8s.example.com', 'A')).data, A);
    }
  });

  test('many addresses are truncated over UDP, and dig asks again over TCP', async () => {
    const many = Array.from({ length: 100 }, (_, i) => `203.0.113.${i + 1}`);
    await using dns = await startDns(
      config(),
      many.flatMap(address => ['--address', address]),
    );
    const cut = await dig(dns.port, 'api.hub.linuxera.lab', 'A', '+ignore');
    assert.deepEqual([cut.flags, cut.data], ['qr aa tc', []]);
    assert.deepEqual((await dig(dns.port, 'api.hub.linuxera.lab', 'A')).data, many.toSorted());
  });

  test(':0 listens on both families, with the same port, and answers from the address that was asked', async () => {
    await using dns = await startDns(config(), FLAGS, ':0');
    assert.ok(dns.listen.includes(`127.0.0.1:${dns.port}`), dns.listen.join());
    assert.ok(dns.listen.every(address => address.endsWith(`:${dns.port}`)));
    for (const address of dns.listen) {
      const host = address.slice(0, address.lastIndexOf(':')).replace(/^\[|\]$/g, '');
      for (const how of ['+notcp', '+tcp'])
        assert.deepEqual(
          (await dig(dns.port, `@${host}`, 'api.hub.linuxera.lab', 'A', how)).data,
          A,
          `${host} ${how}`,
        );
    }
  });

  test('zones, name servers and TTL are as given', async () => {
    const flags = ['--zone', 'example.com', '--name-server', 'ns1.example.net', '--ttl', '5m'];
    await using dns = await startDns(config(), [...FLAGS, ...flags]);
    assert.deepEqual((await dig(dns.port, 'example.com', 'NS')).data, ['ns1.example.net.']);
    const missing = await dig(dns.port, 'other.example.com', 'A');
    assert.deepEqual([missing.status, missing.authority], ['NXDOMAIN', ['example.com. SOA']]);
    assert.match((await dig(dns.port, 'tenant-01.k8s.example.com', 'A')).text, /\s300\s+IN\s+A\s/);
  });

  test('says in one sentence what keeps it from starting', async () => {
    await using dir = await tempDir();
    await using dns = await startDns(config(), FLAGS);
    const file = dir.file('causeway.yaml');
    const fails = async (text: string, args: readonly string[], code: number, message: RegExp) => {
      await writeFile(file, text);
      const all = ['dns', 'serve', '-c', file, '--on', '127.0.0.1:0', '--address', '192.0.2.1', ...args];
      const ended = await run(causewayBin, all);
      assert.equal(ended.code, code, ended.stderr);
      assert.match(ended.stderr, message);
      assert.equal(ended.stderr.trim().split('\n').length, 1, ended.stderr);
    };
    const port = `127.0.0.1:${dns.port}`;
    const inUse = new RegExp(`^Cannot listen on '${port}': .*in use by another process`);
    await fails(config(), ['--on', port], 2, inUse);
    await fails(
      'listen: [":1"]\nclusters: []\n',
      [],
      1,
      /: no cluster has a host, so there is nothing to answer$/m,
    );
    await fails(config(), ['--zone', 'other.org'], 1, /: no cluster has a host in zone 'other\.org'$/m);
    await fails('listen: 5\n', [], 1, /causeway\.yaml:1:9: listen: must be/);
    await fails(
      config(),
      ['--address', 'gw'],
      64,
      /^causeway: --address must be an IPv4 or IPv6 address: gw$/m,
    );
    await fails(config(), ['--on', '53'], 64, /^causeway: --on must be ":53", with a colon/m);
    await fails(config(), ['--ttl', '60'], 64, /^causeway: --ttl must be a whole number and a unit/m);
  });

  test('warns of names that the gateway serves and DNS does not', async () => {
    await using dns = await startDns(config(), FLAGS);
    const { name, because } = await dns.line(({ msg }) => msg.startsWith('name without an address'));
    assert.deepEqual(
      [name, because],
      ['b.apps.hub.linuxera.lab', 'a.b.apps.hub.linuxera.lab hides it from *.apps.hub.linuxera.lab'],
    );
  });
});
