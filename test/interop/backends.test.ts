// Third-party TLS servers behind the gateway: certificates, client certificates, ALPN and streams pass
// through unchanged, because TLS is not terminated on the way.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import * as tls from 'node:tls';
import { authority, type Certificate, certificateFor } from '../../testbed/certificates.ts';
import { curlClient } from '../../testbed/curl-client.ts';
import { freePort } from '../../testbed/free-port.ts';
import { goClient } from '../../testbed/go-client.ts';
import { startGoServer } from '../../testbed/go-peer.ts';
import { opensslClient } from '../../testbed/openssl-client.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startGnutlsServer } from '../../testbed/start-gnutls-server.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { startNginx } from '../../testbed/start-nginx.ts';
import { startOpensslServer } from '../../testbed/start-openssl-server.ts';
import { Peer, until } from '../features/given.ts';

const LINE = 'hello from a client\n';
const REVERSED = `${[...LINE.trim()].toReversed().join('')}\n`;
const GET = 'GET / HTTP/1.0\r\n\r\n';
const LARGE = 3_000_000;

/** What each backend answers; echo servers do not close, so their answer has a length. */
const exchanges: Record<string, readonly [sends: string, receives: string, answerBytes?: number]> = {
  openssl: [LINE, REVERSED, LINE.length],
  gnutls: [LINE, LINE, LINE.length],
  go: [LINE, LINE, LINE.length],
  nginx: [GET, 'nginx served nginx.test'],
  'nginx-stream': [LINE, 'nginx stream served nginx-stream.test'],
  haproxy: [GET, 'haproxy served haproxy.test'],
};

const skip = missingPrograms('openssl', 'gnutls-serv', 'haproxy', 'nginx', 'go', 'curl');
const stack = new AsyncDisposableStack();
let ca: string;
let visitor: Certificate;
let upgrades: Upgrades;
let config: string;
let gateway: Causeway;

before(async () => {
  if (skip) return;
  ({ certFile: ca } = await authority());
  visitor = await certificateFor('visitor.test');
  upgrades = stack.use(await startUpgrades());
  const verify = ['-Verify', '1', '-verify_return_error', '-CAfile', ca];
  const servers: Record<string, number> = {
    openssl: stack.use(await startOpensslServer(await certificateFor('openssl.test'))).port,
    gnutls: stack.use(await startGnutlsServer(await certificateFor('gnutls.test'))).port,
    go: stack.use(await startGoServer(await certificateFor('go.test'))).port,
    'openssl-mutual': stack.use(
      await startOpensslServer({
        ...(await certificateFor('openssl-mutual.test')),
        answer: 'www',
        flags: verify,
      }),
    ).port,
    ...(await nginx()),
    ...(await haproxy()),
  };
  const clusters = Object.entries(servers).map(
    ([name, port]) =>
      `  - { name: ${name}, api: { hosts: [${name}.test], backends: ["127.0.0.1:${port}"] } }`,
  );
  config = `listen: ["127.0.0.1:0"]\nclusters:\n${clusters.join('\n')}\n`;
  gateway = stack.use(await startCauseway({ config }));
});

after(() => stack.disposeAsync());

async function nginx(): Promise<Record<string, number>> {
  const [web, stream, mutual] = [await freePort(), await freePort(), await freePort()];
  const server = async (host: string, listen: string, rest: string) => {
    const { certFile, keyFile } = await certificateFor(host);
    return `server { listen 127.0.0.1:${listen}; ssl_certificate ${certFile}; ssl_certificate_key ${keyFile}; ${rest} }`;
  };
  const pages = [
    await server(
      'nginx.test',
      `${web} ssl http2`,
      `location / { return 200 "nginx served $ssl_server_name"; }
       location /upgrade {
         proxy_pass http://127.0.0.1:${upgrades.port};
         proxy_http_version 1.1;
         proxy_set_header Upgrade $http_upgrade;
         proxy_set_header Connection upgrade;
       }`,
    ),
    await server(
      'nginx-mutual.test',
      `${mutual} ssl http2`,
      `ssl_client_certificate ${ca};
       ssl_verify_client on;
       location / { return 200 "$ssl_client_verify $ssl_client_s_dn $ssl_client_fingerprint"; }`,
    ),
  ];
  const streams = await server(
    'nginx-stream.test',
    `${stream} ssl`,
    'return "nginx stream served $ssl_server_name";',
  );
  stack.use(await startNginx({ http: pages.join('\n'), stream: streams }));
  return { nginx: web, 'nginx-mutual': mutual, 'nginx-stream': stream };
}

async function haproxy(): Promise<Record<string, number>> {
  const port = await freePort();
  const { bundleFile } = await certificateFor('haproxy.test');
  stack.use(
    await startHaproxy({
      config: `
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout tunnel 60s
frontend web
  bind 127.0.0.1:${port} ssl crt ${bundleFile} alpn h2,http/1.1
  http-request return content-type text/plain lf-string "haproxy served %[ssl_fc_sni]" if { path / }
  default_backend upgrades
backend upgrades
  server one 127.0.0.1:${upgrades.port}`,
    }),
  );
  return { haproxy: port };
}

interface Upgrades extends AsyncDisposable {
  readonly port: number;
}

/** An echo server after an HTTP upgrade like a WebSocket's, with plain bytes instead of frames. */
async function startUpgrades(): Promise<Upgrades> {
  const server = createServer((_, response) => response.end());
  server.on('upgrade', (_, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n');
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Requests by curl. */
function fetchFrom(
  name: string,
  options: { http?: '1.1' | '2'; flags?: readonly string[]; path?: string } = {},
) {
  const { path = '', ...rest } = options;
  return curlClient({
    url: `https://${name}.test/${path}`,
    connect: `127.0.0.1:${gateway.port}`,
    ca,
    ...rest,
  });
}

describe('a third-party TLS server answers through the gateway', { skip }, () => {
  for (const [name, [input, heard, answerBytes]] of Object.entries(exchanges)) {
    for (const [who, visit] of Object.entries({ openssl: opensslClient, Go: goClient })) {
      test(`${name}, with ${who} as the client`, async () => {
        const report = await visit({
          connect: `127.0.0.1:${gateway.port}`,
          serverName: `${name}.test`,
          ca,
          input,
          ...(answerBytes !== undefined && { answerBytes }),
        });
        assert.ok(report.handshake, report.printed);
        assert.ok(report.answer.toString().endsWith(heard), `${report.answer}\n${report.printed}`);
        const line = await gateway.line(entry => entry.msg === 'connection' && entry.host === `${name}.test`);
        assert.deepEqual([line.cluster, line.protocol], [name, 'tls']);
      });
    }
  }

  test(`Go echoes ${LARGE} bytes after a half-close`, async () => {
    const connect = `127.0.0.1:${gateway.port}`;
    const report = await goClient({
      connect,
      serverName: 'go.test',
      ca,
      size: LARGE,
      seed: 3,
      halfClose: true,
    });
    assert.deepEqual([report.error, report.receivedBytes], ['', LARGE]);
    assert.equal(report.receivedSha256, report.sentSha256);
  });
});

describe('a client certificate', { skip }, () => {
  test('reaches nginx unchanged', async () => {
    const { certFile, keyFile } = visitor;
    const report = await fetchFrom('nginx-mutual', { flags: ['--cert', certFile, '--key', keyFile] });
    const { fingerprint } = new X509Certificate(await readFile(certFile));
    const sha1 = fingerprint.replaceAll(':', '').toLowerCase();
    assert.equal(report.answer.toString(), `SUCCESS CN=visitor.test ${sha1}`, report.printed);
  });

  test('is required by nginx', async () => {
    const report = await fetchFrom('nginx-mutual');
    assert.equal(report.status, 400, report.printed);
    assert.match(report.answer.toString(), /No required SSL certificate was sent/);
  });

  test('reaches openssl s_server unchanged', async () => {
    const { certFile, keyFile } = visitor;
    const report = await fetchFrom('openssl-mutual', { flags: ['--cert', certFile, '--key', keyFile] });
    assert.equal(report.status, 200, report.printed);
    assert.match(report.answer.toString(), /Subject: CN ?= ?visitor\.test/);
  });

  test('is required by openssl s_server, with an alert of that server', async () => {
    const report = await fetchFrom('openssl-mutual');
    assert.deepEqual([report.alert, report.answer.length], [116, 0], report.printed); // certificate_required
  });
});

describe('ALPN is negotiated by client and backend', { skip }, () => {
  for (const name of ['nginx', 'haproxy']) {
    for (const [http, alpn] of [
      ['2', 'h2'],
      ['1.1', 'http/1.1'],
    ] as const) {
      test(`${alpn} with ${name}`, async () => {
        const report = await fetchFrom(name, { http });
        assert.deepEqual([report.status, report.alpn], [200, alpn], report.printed);
        assert.equal(report.answer.toString(), `${name} served ${name}.test`);
      });
    }
  }
});

describe('an upgraded connection', { skip }, () => {
  for (const name of ['nginx', 'haproxy']) {
    test(`through ${name} stays open while the gateway applies new tables`, async () => {
      const socket = tls.connect({
        port: gateway.port,
        host: '127.0.0.1',
        servername: `${name}.test`,
        ca: await readFile(ca),
        ALPNProtocols: ['http/1.1'],
      });
      await once(socket, 'secureConnect');
      using client = new Peer(socket);
      client.send(
        `GET /upgrade HTTP/1.1\r\nHost: ${name}.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`,
      );
      await client.receives('101 Switching Protocols');
      for (let round = 1; round <= 3; round++) {
        client.send(`message ${round} to ${name}\n`);
        await client.receives(`message ${round} to ${name}\n`);
        const { generation } = await gateway.status();
        // Adds a cluster, and finally removes it.
        const further =
          round < 3 ? `  - { name: ${name}-${round}, api: { hosts: [x.test], backends: [] } }\n` : '';
        await gateway.write(config + further);
        await until('the new table', async () => (await gateway.status()).generation !== generation);
      }
      client.send('the last message\n');
      await client.receives('the last message\n');
      const address = `127.0.0.1:${socket.localPort}`;
      client.finish();
      assert.equal(await client.untilEnd(), 'FIN');
      const line = await gateway.line(entry => entry.peer === address);
      assert.deepEqual([line.cluster, line.reason], [name, 'done']);
    });
  }
});
