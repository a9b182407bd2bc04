// `causeway agent` as a process: its first bytes, flags and environment, addresses of the gateway, reloaded
// files, metrics, signals, and a gateway that restarts.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as tlsConnect } from 'node:tls';
import { authorityOf, certificateFor } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { run } from '../../testbed/run.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { API_HOST, ID, OTHER_ID, TUNNEL_HOST, type Uplink, uplinks, World, writeKey } from './agent-given.ts';
import { Backend, connectClient, hello, isClosed, until } from './given.ts';

let world: World;
before(async () => {
  world = await World.start();
});
after(() => world?.[Symbol.asyncDispose]());

async function served(uplink: Uplink, agent: RunningAgent, place = world): Promise<void> {
  using ends = await place.open(uplink, agent);
  ends.backend.resume();
  ends.client.resume();
  ends.client.end('x');
  ends.backend.end();
  await once(ends.client, 'end').catch(error => {
    throw new Error(
      `The client of --uplink ${uplink} was not served. Its agent printed:\n${agent.program.log()}`,
      {
        cause: error,
      },
    );
  });
}

/** A server that keeps the first segment of its first connection, as one read returns it. */
async function startEar(port = 0): Promise<AsyncDisposable & { port: number; first: Promise<Buffer> }> {
  const { promise: first, resolve } = Promise.withResolvers<Buffer>();
  const server = createServer(socket => {
    socket.once('data', resolve);
    socket.on('error', () => {});
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    first,
    async [Symbol.asyncDispose]() {
      server.close();
    },
  };
}

/** A loopback address as on the wire. */
function endpoint(address: 'IPv4' | 'IPv6'): string {
  return address === 'IPv4' ? '7f000001' : `${'0'.repeat(31)}1`;
}

/** The names in the certificate that the server there presents. */
async function namesAt(port: number): Promise<string> {
  const socket = tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return new X509Certificate(raw).subjectAltName ?? '';
}

// Three at a time: starting its agent takes most of a test's time.
describe('causeway agent', { concurrency: 3 }, () => {
  describe('the first bytes of --uplink proxy', () => {
    for (const [family, host, head, length] of [
      ['IPv4', '127.0.0.1', '2111 0033', 67],
      ['IPv6', '::1', '2121 004b', 91],
    ] as const) {
      test(`are the ${length} of a HyperShift node over ${family}, in one segment`, async () => {
        await using gateway = await startEar();
        await using agent = await startAgent({
          uplink: 'proxy',
          gateway: `127.0.0.1:${gateway.port}`,
          id: ID,
          on: host.includes(':') ? `[${host}]:0` : `${host}:0`,
        });
        using client = await connectClient(agent.port, { to: host });
        const ports = [client.socket.localPort as number, agent.port];
        const hex = ports.map(port => port.toString(16).padStart(4, '0')).join('');
        const expected = `0d0a0d0a000d0a515549540a ${head} ${endpoint(family)} ${endpoint(family)} ${hex} 20 0024 ${Buffer.from(ID).toString('hex')}`;
        const first = await gateway.first;
        assert.equal(first.toString('hex'), expected.replaceAll(' ', ''));
        assert.equal(first.length, length);
      });
    }

    test('have the hello in the same segment if it has arrived', async () => {
      const port = await freePort();
      await using agent = await startAgent({ uplink: 'proxy', gateway: `127.0.0.1:${port}`, id: ID });
      using client = await connectClient(agent.port);
      client.send(hello('a.test'));
      // The first attempt fails; the hello has been read before the next one.
      await delay(300);
      await using gateway = await startEar(port);
      const first = await gateway.first;
      assert.deepEqual(first.subarray(67), Buffer.from(hello('a.test')));
    });
  });

  test('--uplink connect sends CONNECT with the id, and forwards nothing before the response', async () => {
    await using gateway = await Backend.start({ silent: true });
    await using agent = await startAgent({ uplink: 'connect', gateway: gateway.text, id: ID });
    using client = await connectClient(agent.port);
    client.send('ahead');
    const peer = await gateway.accepted();
    await peer.receives('\r\n\r\n');
    await delay(100);
    assert.equal(peer.received().toString(), `CONNECT ${ID}:6443 HTTP/1.1\r\nHost: ${ID}:6443\r\n\r\n`);
    peer.send('HTTP/1.1 200 Fine\r\nVia: somebody\r\n\r\nand more');
    await peer.receives('ahead');
    assert.equal((await client.receives(8)).toString(), 'and more');
  });

  describe('a client that leaves while the gateway is dialled', () => {
    for (const uplink of ['connect', 'tunnel', 'terminate'] as const) {
      test(`is client-gone by ${uplink}, and the connection to the gateway is closed`, async () => {
        await using gateway = await Backend.start({ silent: true });
        const flags = await world.flags(uplink);
        await using agent = await startAgent({ uplink, gateway: gateway.text, id: ID, args: flags });
        using client = await connectClient(agent.port);
        client.send(hello(''));
        const peer = await gateway.accepted();
        await peer.receives(1);
        client.finish();
        await peer.untilEnd();
        assert.equal((await agent.line(line => line.msg === 'connection')).reason, 'client-gone');
      });
    }
  });

  describe('several addresses of the gateway', () => {
    for (const uplink of uplinks) {
      test(`are tried in order by ${uplink}, and the working one is remembered`, async () => {
        // The gateway does not listen on the first two.
        const addresses = ['127.0.0.3', '127.0.0.4', '127.0.0.1'].flatMap(ip => ['--gateway-address', ip]);
        const args = [...(await world.flags(uplink)), ...addresses];
        const gateway = `gateway.test:${world.gateway.port}`;
        await using agent = await startAgent({ uplink, gateway, id: ID, args });
        for (let visits = 0; visits < 3; visits++) await served(uplink, agent);
        const isUsed = uplink === 'proxy' || uplink === 'connect';
        if (isUsed) await agent.line(line => line.msg === 'health' && line.up === false);
      });
    }

    test('by name: it starts although the name does not resolve, and logs that', async () => {
      await using agent = await startAgent({
        uplink: 'proxy',
        gateway: 'no-such-gateway.invalid:6443',
        id: ID,
      });
      assert.match(
        JSON.stringify(await agent.line(line => line.msg === "the gateway's name does not resolve")),
        /no-such-gateway/,
      );
      using client = await connectClient(agent.port);
      client.send(hello(''));
      await client.untilEnd();
      assert.match(String((await agent.line(line => line.msg === 'connection')).reason), /^connect-failed$/);
    });
  });

  describe('files that are replaced while it runs', () => {
    test('--key-file', async () => {
      const keyFile = world.dir.file('changing.key');
      await writeKey(keyFile, ID);
      await using agent = await startAgent({
        uplink: 'proxy',
        gateway: `127.0.0.1:${world.gateway.port}`,
        id: OTHER_ID,
        args: ['--key-file', keyFile],
      });
      using refused = await connectClient(agent.port);
      refused.send(hello(''));
      await refused.untilEnd();
      await writeFile(keyFile, 'no key');
      await agent.line(
        line => line.msg.startsWith('file refused') && /43 characters/.test(String(line.error)),
      );
      await writeKey(keyFile, OTHER_ID);
      await agent.line(line => line.msg === 'key, CA or certificate changed');
      await served('proxy', agent);
    });

    test('--ca-file', async () => {
      const caFile = world.dir.file('changing.ca');
      await copyFile((await authorityOf('somebody else')).certFile, caFile);
      await using agent = await startAgent({
        uplink: 'tunnel',
        gateway: `127.0.0.1:${world.gateway.port}`,
        id: ID,
        args: ['--key-file', world.dir.file('key'), '--server-name', TUNNEL_HOST, '--ca-file', caFile],
      });
      using refused = await connectClient(agent.port);
      refused.send(hello(''));
      await refused.untilEnd();
      await copyFile(world.caFile, caFile);
      await agent.line(line => line.msg === 'key, CA or certificate changed');
      await served('tunnel', agent);
    });

    test('--cert-file and --cert-key-file', async () => {
      // Its own: open() would take the connections of namesAt() for those of another test.
      await using own = await World.start();
      const [certFile, keyFile] = [own.dir.file('shown.crt'), own.dir.file('shown.key')];
      const show = async (...names: [string, ...string[]]) => {
        const made = await certificateFor(...names);
        await copyFile(made.certFile, certFile);
        await copyFile(made.keyFile, keyFile);
      };
      await show('127.0.0.1');
      await using agent = await startAgent({
        uplink: 'terminate',
        gateway: `127.0.0.1:${own.gateway.port}`,
        id: ID,
        args: [
          '--server-name',
          API_HOST,
          '--ca-file',
          own.caFile,
          '--cert-file',
          certFile,
          '--cert-key-file',
          keyFile,
        ],
      });
      assert.match(await namesAt(agent.port), /^IP Address:127\.0\.0\.1$/);
      await show('127.0.0.1', 'renewed.test');
      await agent.line(line => line.msg === 'key, CA or certificate changed');
      assert.match(await namesAt(agent.port), /renewed\.test/);
    });

    test("the gateway's certificate for the tunnel; a bad one is not used", async () => {
      // Its own: other tests use the certificate meanwhile.
      await using own = await World.start();
      await using agent = await own.agent('tunnel');
      await served('tunnel', agent, own);
      const other = await (await authorityOf('the next')).certificateFor(TUNNEL_HOST);
      await copyFile(other.certFile, own.dir.file('tunnel.crt'));
      await copyFile(other.keyFile, own.dir.file('tunnel.key'));
      await own.gateway.line(line => line.msg === 'tunnel certificate renewed');
      using refused = await connectClient(agent.port);
      refused.send(hello(''));
      await refused.untilEnd();
      await agent.line(line => line.msg === 'gateway not reached');
      await writeFile(own.dir.file('tunnel.key'), 'no key');
      await own.gateway.line(line => line.msg.startsWith('tunnel certificate refused'));
      const made = await certificateFor(TUNNEL_HOST);
      await copyFile(made.certFile, own.dir.file('tunnel.crt'));
      await copyFile(made.keyFile, own.dir.file('tunnel.key'));
      await until(
        'the first one again',
        () => own.gateway.lines().filter(line => line.msg === 'tunnel certificate renewed').length > 1,
      );
      await served('tunnel', agent, own);
    });
  });

  test('every flag has an environment variable, which the flag overrides', async () => {
    const { certFile, keyFile } = await certificateFor('127.0.0.1');
    const environment = {
      CAUSEWAY_AGENT_CLUSTER_ID: ID,
      CAUSEWAY_AGENT_GATEWAY: `gateway.test:${world.gateway.port}`,
      CAUSEWAY_AGENT_GATEWAY_ADDRESS: '127.0.0.3, 127.0.0.1',
      CAUSEWAY_AGENT_UPLINK: 'proxy',
      CAUSEWAY_AGENT_ON: '127.0.0.1:0',
      CAUSEWAY_AGENT_SERVER_NAME: API_HOST,
      CAUSEWAY_AGENT_KEY_FILE: world.dir.file('key'),
      CAUSEWAY_AGENT_CA_FILE: world.caFile,
      CAUSEWAY_AGENT_CERT_FILE: certFile,
      CAUSEWAY_AGENT_CERT_KEY_FILE: keyFile,
      CAUSEWAY_AGENT_METRICS_ON: '127.0.0.1:0',
      CAUSEWAY_AGENT_ENDPOINTS: 'false',
      CAUSEWAY_AGENT_WORKERS: '1',
      CAUSEWAY_AGENT_ENGINE: process.env.CAUSEWAY_TEST_ENGINE ?? 'auto',
      // As Kubernetes sets it for a Service of that name.
      CAUSEWAY_AGENT_SERVICE_HOST: '10.96.0.9',
      CAUSEWAY_AGENT_PORT: 'tcp://10.96.0.9:6443',
    };
    const options = { gateway: '', id: '', environment, args: ['--uplink', 'terminate'] };
    await using agent = await startAgent({ ...options, uplink: 'terminate' });
    assert.deepEqual([agent.ready.uplink, agent.ready.workers, agent.ready.clusterId], ['terminate', 1, ID]);
    await served('terminate', agent);
    assert.equal(await (await fetch(`${agent.metrics}/readyz`)).text(), 'ok');
    await agent.line(
      line => line.level === 'warn' && line.msg.startsWith('--key-file is not used by --uplink'),
    );
  });

  test('a flag that the uplink does not use is logged, and its file may be missing', async () => {
    await using agent = await world.agent('proxy', { args: ['--ca-file', '/no/such/file'] });
    await served('proxy', agent);
    await agent.line(
      line => line.level === 'warn' && line.msg.startsWith('--ca-file is not used by --uplink proxy'),
    );
  });

  test('metrics, healthz and readyz', async () => {
    await using agent = await world.agent('proxy', { args: ['--metrics-on', '127.0.0.1:0'] });
    await served('proxy', agent);
    await agent.line(line => line.msg === 'connection');
    const ask = (path: string) => fetch(agent.metrics + path);
    assert.equal((await ask('/healthz')).status, 200);
    assert.equal((await ask('/readyz')).status, 200);
    assert.equal((await ask('/elsewhere')).status, 404);
    const text = await (await ask('/metrics')).text();
    assert.match(
      text,
      new RegExp(`causeway_connections_total\\{cluster="${ID}",route="api",reason="done"\\} 1`),
    );
    assert.match(text, /causeway_findings\{severity="warning"\} 0/);
  });

  describe('signals', () => {
    test('the first one drains: no new connections, open ones may finish; exit code 0', async () => {
      await using agent = await world.agent('tunnel', { args: ['--metrics-on', '127.0.0.1:0'] });
      using ends = await world.open('tunnel', agent);
      ends.backend.resume();
      agent.program.signal('SIGTERM');
      await agent.line(line => line.msg === 'draining');
      assert.equal((await fetch(`${agent.metrics}/readyz`)).status, 503);
      await until('the listener to close', () => isClosed(agent.port));
      ends.backend.write('still here');
      const [heard] = (await once(ends.client, 'data')) as [Buffer];
      assert.equal(heard.toString(), 'still here');
      ends.client.end();
      ends.backend.end();
      assert.equal((await agent.program.ended).code, 0);
    });

    test('the second one ends the process at once, with exit code 0', async () => {
      await using agent = await world.agent('proxy');
      using ends = await world.open('proxy', agent);
      ends.client.resume();
      agent.program.signal('SIGTERM');
      await agent.line(line => line.msg === 'draining');
      agent.program.signal('SIGINT');
      assert.equal((await agent.program.ended).code, 0);
      assert.equal(agent.lines().find(line => line.msg === 'connection')?.reason, 'shutdown');
    });
  });

  test('every uplink reaches a restarted gateway', async () => {
    const port = await freePort();
    const config = `
listen: [{ on: "127.0.0.1:${port}", agents: [127.0.0.1/32] }]
identity: { secretFile: ${world.dir.file('secret')} }
tunnel: { hosts: [${TUNNEL_HOST}], certificates: [{ certFile: ${world.dir.file('tunnel.crt')}, keyFile: ${world.dir.file('tunnel.key')} }] }
clusters:
  - { name: a, id: ${ID}, api: { hosts: [a.test], backends: ["127.0.0.1:${world.plain.port}"] }, routes: { opened: { hosts: [${API_HOST}], backends: ["127.0.0.1:${world.tls.port}"] } } }`;
    await using stack = new AsyncDisposableStack();
    const agents = await Promise.all(
      uplinks.map(async uplink => {
        const gateway = `127.0.0.1:${port}`;
        const agent = stack.use(
          await startAgent({ uplink, gateway, id: ID, args: await world.flags(uplink) }),
        );
        return [uplink, agent] as const;
      }),
    );
    for (let generation = 0; generation < 2; generation++) {
      await using _ = await startCauseway({ config });
      for (const [uplink, agent] of agents) await served(uplink, agent);
    }
  });

  describe('wrong usage', () => {
    const flags = ['--cluster-id', ID, '--gateway', '127.0.0.1:1', '--on', '127.0.0.1:0', '--uplink'];
    const cases: readonly (readonly [
      what: string,
      args: () => readonly string[],
      code: number,
      says: RegExp,
    ])[] = [
      [
        'no flags',
        () => [],
        64,
        /--cluster-id is required: .*\n.*--uplink is required.*\n.*--gateway is required.*\n.*--on is required/,
      ],
      ['an unknown flag', () => ['--cluster', 'x'], 64, /Unknown option '--cluster'/],
      [
        'a tunnel without a key',
        () => [...flags, 'tunnel', '--server-name', 'x.test'],
        64,
        /--key-file is required: a tunnel accepts only signed ids/,
      ],
      [
        'a file that is not there',
        () => [...flags, 'proxy', '--key-file', '/no/such/key'],
        1,
        /--key-file cannot be read: \/no\/such\/key: there is no such file/,
      ],
      [
        'an address that is in use',
        () => [...flags.with(5, `127.0.0.1:${world.gateway.port}`), 'proxy'],
        2,
        /in use|already/,
      ],
    ];
    for (const [what, args, code, says] of cases) {
      test(`${what} ends with ${code}`, async () => {
        const result = await run(causewayBin, ['agent', ...args()]);
        assert.equal(result.code, code);
        assert.match(result.stderr, says);
        assert.doesNotMatch(result.stderr, /\n +at /);
      });
    }

    test('an environment variable that is neither true nor false', async () => {
      const { code, stderr } = await run(causewayBin, ['agent', ...flags, 'proxy'], {
        env: { CAUSEWAY_AGENT_ENDPOINTS: 'perhaps' },
      });
      assert.equal(code, 64);
      assert.match(stderr, /CAUSEWAY_AGENT_ENDPOINTS must be true or false: perhaps/);
    });
  });
});
