// PROXY headers of HAProxy and nginx: in front of the gateway, as balancers whose
// header has the client's address, and as agents that name a cluster; and behind it, as backends that get a header.
// Loopback addresses stand for the parties.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { type CurlReport, curlClient } from '../../testbed/curl-client.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { startNginx } from '../../testbed/start-nginx.ts';
import { until } from '../features/given.ts';

const BALANCER = '127.0.0.10';
const AGENT = '127.0.0.20';
/** The only client that the guarded cluster allows. */
const FRIEND = '127.0.0.50';
const OTHER = '127.0.0.60';
/** Neither balancer nor agent. */
const STRANGER = '127.0.0.70';
/** In HAProxy's UNIQUE_ID. */
const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';

const skip = missingPrograms('openssl', 'haproxy', 'nginx', 'curl');
const stack = new AsyncDisposableStack();
let ca: string;
let gateway: Causeway;

/** Ports of the senders in front of the gateway, by name. */
const front: Record<string, number> = {};
/** Ports of the receivers behind it. */
const back: Record<string, number> = {};

const balancers = {
  'haproxy-v1': 'send-proxy',
  'haproxy-v2': 'send-proxy-v2',
  'haproxy-v2-crc32c': 'send-proxy-v2 proxy-v2-options crc32c',
  // A balancer's TLVs are ignored.
  'haproxy-v2-unique-id': 'send-proxy-v2 proxy-v2-options crc32c,unique-id',
};
const agents = {
  'agent-unique-id': [ID, 'send-proxy-v2 proxy-v2-options unique-id'],
  'agent-unique-id-crc32c': [ID, 'send-proxy-v2 proxy-v2-options crc32c,unique-id'],
  'agent-unknown-id': ['nobody', 'send-proxy-v2 proxy-v2-options unique-id'],
  'agent-v1': ['', 'send-proxy'],
  'agent-v2': ['', 'send-proxy-v2'],
} as const;

before(async () => {
  if (skip) return;
  ({ certFile: ca } = await authority());
  const names = [
    ...Object.keys(balancers),
    ...Object.keys(agents),
    'nginx',
    'stacked',
    'stacked-agent',
    'stacked-stranger',
  ];
  for (const name of names) front[name] = await freePort();
  for (const name of ['plain', 'nginx', 'haproxy']) back[name] = await freePort();
  const route = (host: string, name: string, rest = '') =>
    `api: { hosts: [${host}], backends: ["127.0.0.1:${back[name]}"]${rest} }`;
  const parties = `balancers: [${BALANCER}/32], agents: [${AGENT}/32], idTlv: [0x20, 0x05]`;
  gateway = stack.use(
    await startCauseway({
      config: `
listen:
  - { on: "127.0.0.1:0", ${parties} }
  - { on: "[::1]:0" }
clusters:
  - { name: guarded, allow: [${FRIEND}/32], ${route('guarded.test', 'plain')} }
  - { name: named, id: ${ID}, ${route('named.test', 'plain')} }
  - { name: nginx-v1, ${route('nginx-v1.test', 'nginx', ', proxyProtocol: v1')} }
  - { name: nginx-v2, ${route('nginx-v2.test', 'nginx', ', proxyProtocol: v2')} }
  - { name: haproxy-v1, ${route('haproxy-v1.test', 'haproxy', ', proxyProtocol: v1')} }
  - { name: haproxy-v2, ${route('haproxy-v2.test', 'haproxy', ', proxyProtocol: v2')} }
`,
    }),
  );
  stack.use(await startHaproxy({ config: await haproxyConfig() }));
  stack.use(await startNginx(await nginxConfig()));
});

after(() => stack.disposeAsync());

async function haproxyConfig(): Promise<string> {
  const { bundleFile } = await certificateFor('haproxy-v1.test', 'haproxy-v2.test');
  const pass = (name: string, id: string, source: string, to: number, how: string) => `
listen ${name}
  mode tcp
  bind 127.0.0.1:${front[name]}
  ${id === '' ? '' : `unique-id-format ${id}`}
  server gateway 127.0.0.1:${to} source ${source} ${how}`;
  const { port } = gateway;
  const sections = [
    ...Object.entries(balancers).map(([name, how]) => pass(name, ID, BALANCER, port, how)),
    ...Object.entries(agents).map(([name, [id, how]]) => pass(name, id, AGENT, port, how)),
    pass('stacked-agent', ID, AGENT, front.stacked, 'send-proxy-v2 proxy-v2-options unique-id'),
    pass('stacked-stranger', ID, STRANGER, front.stacked, 'send-proxy-v2 proxy-v2-options unique-id'),
  ];
  return `
defaults
  timeout connect 5s
  timeout client 30s
  timeout server 30s
${sections.join('\n')}

frontend receiver
  mode http
  bind 127.0.0.1:${back.haproxy} accept-proxy ssl crt ${bundleFile}
  http-request return content-type text/plain lf-string "%[src] %[src_port] to %[dst] %[dst_port]"
`;
}

async function nginxConfig(): Promise<{ http: string; stream: string }> {
  const plain = await certificateFor('guarded.test', 'named.test', '127.0.0.1');
  const reported = await certificateFor('nginx-v1.test', 'nginx-v2.test');
  const pass = (name: string) => `
    server { listen 127.0.0.1:${front[name]}; proxy_bind ${BALANCER}; proxy_pass 127.0.0.1:${gateway.port}; proxy_protocol on; }`;
  return {
    stream: pass('nginx') + pass('stacked'),
    http: `
    server {
      listen 127.0.0.1:${back.plain} ssl;
      ssl_certificate ${plain.certFile};
      ssl_certificate_key ${plain.keyFile};
      location / { return 200 "served"; }
    }
    server {
      listen 127.0.0.1:${back.nginx} ssl proxy_protocol;
      ssl_certificate ${reported.certFile};
      ssl_certificate_key ${reported.keyFile};
      location / {
        return 200 "$proxy_protocol_addr $proxy_protocol_port to $proxy_protocol_server_addr $proxy_protocol_server_port";
      }
    }`,
  };
}

interface Visit extends CurlReport {
  /** Its source, as in the log. */
  readonly address: string;
}

/** A request by curl from its own address. Without a host: no SNI. */
async function visit(port: number, from: string, host?: string): Promise<Visit> {
  const report = await curlClient({
    url: host === undefined ? `https://127.0.0.1:${port}/` : `https://${host}/`,
    connect: `127.0.0.1:${port}`,
    ca,
    flags: ['--interface', from],
  });
  return { ...report, address: `${from}:${portOf(report)}` };
}

function portOf({ printed }: CurlReport): string | undefined {
  return /"local_port":(\d+)/.exec(printed)?.[1];
}

/** The log line of the connection whose client or origin this is. */
function lineWith(key: 'client' | 'origin', { address }: Visit): Promise<LogLine> {
  return gateway.line(entry => entry.msg === 'connection' && entry[key] === address);
}

const host = (address: unknown) => String(address).split(':')[0];

describe('a balancer in front', { skip, concurrency: true }, () => {
  for (const name of [...Object.keys(balancers), 'nginx']) {
    test(`${name}: the client in its header is allowed and logged`, async () => {
      const report = await visit(front[name], FRIEND, 'guarded.test');
      assert.equal(report.answer.toString(), 'served', report.printed);
      const line = await lineWith('client', report);
      assert.deepEqual(
        [host(line.peer), line.cluster, line.origin, line.clusterId],
        [BALANCER, 'guarded', null, null],
      );
    });

    test(`${name}: the client in its header is not allowed`, async () => {
      const report = await visit(front[name], OTHER, 'guarded.test');
      assert.deepEqual([report.handshake, report.alert], [false, 49], report.printed);
      assert.equal((await lineWith('client', report)).reason, 'not-allowed');
    });
  }
});

describe('an agent in front', { skip, concurrency: true }, () => {
  for (const name of ['agent-unique-id', 'agent-unique-id-crc32c']) {
    test(`${name}: reaches the cluster that it names without SNI`, async () => {
      const report = await visit(front[name], OTHER);
      assert.equal(report.answer.toString(), 'served', report.printed);
      const line = await lineWith('origin', report);
      assert.deepEqual(
        [host(line.peer), line.client, line.clusterId, line.cluster, line.host],
        [AGENT, line.peer, ID, 'named', null],
      );
    });

    test(`${name}: reaches the cluster that it names whatever the SNI`, async () => {
      const report = await curlClient({
        url: 'https://guarded.test/',
        connect: `127.0.0.1:${front[name]}`,
        ca,
        flags: ['--interface', FRIEND],
      });
      assert.equal(report.answer.toString(), 'served', report.printed);
      const line = await lineWith('origin', { ...report, address: `${FRIEND}:${portOf(report)}` });
      assert.deepEqual([line.host, line.cluster], ['guarded.test', 'named']);
    });
  }

  test('agent-unknown-id: is refused with an alert', async () => {
    const report = await visit(front['agent-unknown-id'], OTHER);
    assert.deepEqual([report.handshake, report.alert], [false, 49], report.printed);
    const line = await lineWith('origin', report);
    assert.deepEqual([line.reason, line.clusterId, line.cluster], ['unknown-cluster', 'nobody', null]);
  });

  for (const name of ['agent-v1', 'agent-v2']) {
    test(`${name}: without an id SNI decides, and the origin is not trusted`, async () => {
      const named = await visit(front[name], FRIEND, 'named.test');
      assert.equal(named.answer.toString(), 'served', named.printed);
      assert.equal((await lineWith('origin', named)).cluster, 'named');
      const guarded = await visit(front[name], FRIEND, 'guarded.test');
      assert.equal(guarded.alert, 49, guarded.printed);
      assert.equal((await lineWith('origin', guarded)).reason, 'not-allowed');
    });
  }

  test('stacked: HAProxy names the cluster, and the header of nginx has the address of HAProxy', async () => {
    const report = await visit(front['stacked-agent'], OTHER);
    assert.equal(report.answer.toString(), 'served', report.printed);
    const line = await lineWith('origin', report);
    assert.deepEqual(
      [host(line.peer), host(line.client), line.clusterId, line.cluster],
      [BALANCER, AGENT, ID, 'named'],
    );
  });

  test('stacked: an address in the header of nginx that is not in `agents` may not name a cluster', async () => {
    const report = await visit(front['stacked-stranger'], OTHER);
    assert.deepEqual([report.handshake, report.answer.length], [false, 0], report.printed);
    const line = await gateway.line(entry => entry.msg === 'connection' && host(entry.client) === STRANGER);
    assert.deepEqual([host(line.peer), line.reason, line.cluster], [BALANCER, 'untrusted-agent', null]);
  });
});

describe('a receiver behind', { skip, concurrency: true }, () => {
  for (const name of ['nginx-v1', 'nginx-v2', 'haproxy-v1', 'haproxy-v2']) {
    test(`${name}: gets the client's address and port`, async () => {
      const report = await visit(gateway.port, FRIEND, `${name}.test`);
      const [address, port] = report.address.split(':');
      assert.equal(
        report.answer.toString(),
        `${address} ${port} to 127.0.0.1 ${gateway.port}`,
        report.printed,
      );
    });

    test(`${name}: gets the address and port of an IPv6 client`, async () => {
      const [, port] = gateway.ports;
      const report = await curlClient({ url: `https://${name}.test/`, connect: `[::1]:${port}`, ca });
      assert.equal(report.answer.toString(), `::1 ${portOf(report)} to ::1 ${port}`, report.printed);
    });

    test(`${name}: gets the client of a balancer's header`, async () => {
      const report = await visit(front['haproxy-v2'], FRIEND, `${name}.test`);
      const [address, port] = report.address.split(':');
      assert.equal(
        report.answer.toString(),
        `${address} ${port} to 127.0.0.1 ${front['haproxy-v2']}`,
        report.printed,
      );
    });
  }
});

describe("HAProxy's health checks", { skip, concurrency: true }, () => {
  // A plain check resets before it acknowledges our SYN-ACK, so the gateway may never see it.
  for (const [how, seen] of [
    ['check', 0],
    ['check check-send-proxy send-proxy', 10],
    ['check check-send-proxy send-proxy-v2', 10],
  ] as const) {
    test(`${how}: succeed, and are counted and not logged`, async () => {
      await using gateway = await startCauseway({
        config: 'listen: [{ on: "127.0.0.1:0", balancers: [127.0.0.0/8] }]\nclusters: []\n',
      });
      await using checker = await startHaproxy({
        config: `
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen front
  bind 127.0.0.1:${await freePort()}
  server gateway 127.0.0.1:${gateway.port} inter 50ms ${how}`,
      });
      // The status of the last check: a connection was possible.
      await until('a check', async () =>
        /^front,gateway,.*,UP,.*,L4OK,/m.test(await checker.runtime('show stat')),
      );
      const total = () => gateway.metric('causeway_connections_total');
      await until(`${seen} checks`, async () => (await total()) >= seen);
      await checker.stop();
      await until('their end', async () => (await openConnections(gateway)) === 0);
      assert.equal(await gateway.metric('causeway_connections_total', { reason: 'no-data' }), await total());
      assert.deepEqual(gateway.connections(), []);
    });
  }
});

async function openConnections(gateway: Causeway): Promise<number> {
  const { counts } = (await gateway.status()) as { counts: { connections: number } };
  return counts.connections;
}
