// Cleartext HTTP between third-party programs: curl and Chromium in front, nginx and HAProxy behind. One port
// serves TLS and cleartext.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { certificateFor } from '../../testbed/certificates.ts';
import { curlClient } from '../../testbed/curl-client.ts';
import { freePort } from '../../testbed/free-port.ts';
import { findProgram, missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { startNginx } from '../../testbed/start-nginx.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { assertAlive, HttpClient, untilIdle } from '../features/http-given.ts';

const LARGE = 10_000_000;
/** RFC 6455 1.3. */
const WEBSOCKET_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** Large enough that curl sends Expect: 100-continue. */
const EXPECTED = 2_000_000;

const skip = missingPrograms('curl', 'nginx', 'haproxy', 'openssl');
const stack = new AsyncDisposableStack();
let dir: TempDir;
let gateway: Causeway;
const large = randomBytes(LARGE);

before(async () => {
  if (skip) return;
  dir = stack.use(await tempDir());
  await writeFile(dir.file('large'), large);
  const [nginx, haproxy] = [await freePort(), await freePort()];
  const uploads = stack.use(await startServer(createServer(countBody)));
  stack.use(
    await startNginx({
      http: `
server {
  listen 127.0.0.1:${nginx};
  client_max_body_size 5m;
  root ${dir.path};
  location = / { return 200 "nginx served $host to $http_x_forwarded_for"; }
  location /upload { proxy_pass http://127.0.0.1:${uploads.port}; proxy_http_version 1.1; proxy_request_buffering off; }
}`,
    }),
  );
  stack.use(
    await startHaproxy({
      config: `
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend web
  bind 127.0.0.1:${haproxy}
  http-request return content-type text/plain lf-string "haproxy served %[req.hdr(host)] to %[req.hdr(x-forwarded-for)]" if { path / }
  default_backend uploads
backend uploads
  server one 127.0.0.1:${uploads.port}`,
    }),
  );
  const apps: string[] = [];
  for (const name of ['one', 'two']) {
    const { certFile, keyFile } = await certificateFor(`${name}.test`);
    const tls = createTlsServer({ cert: await readFile(certFile), key: await readFile(keyFile) });
    const https = stack.use(await startServer(page(name, tls)));
    const http = stack.use(await startServer(page(name, createServer())));
    apps.push(
      `  - { name: ${name}, apps: { hosts: [${name}.test], https: ["127.0.0.1:${https.port}"], http: ["127.0.0.1:${http.port}"] } }`,
    );
  }
  gateway = stack.use(
    await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
clusters:
  - { name: nginx, apps: { hosts: [nginx.test], http: ["127.0.0.1:${nginx}"] } }
  - { name: haproxy, apps: { hosts: [haproxy.test], http: ["127.0.0.1:${haproxy}"] } }
  - { name: moved, apps: { hosts: [moved.test], http: redirect } }
${apps.join('\n')}
`,
    }),
  );
});

after(() => stack.disposeAsync());

async function countBody(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const hash = createHash('sha256');
  for await (const chunk of request) hash.update(chunk);
  response.end(hash.digest('hex'));
}

/** A page that sends its origin over a WebSocket, and shows the response as its title. */
function page<Kind extends Server>(name: string, server: Kind): Kind {
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    response.setHeader('Access-Control-Allow-Origin', '*');
    if (request.url === '/name') return response.end(name);
    response.setHeader('Content-Type', 'text/html');
    return response.end(`<!doctype html><script type="module">
const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket');
socket.onopen = () => socket.send(location.protocol + ' ${name}');
socket.onmessage = ({ data }) => (document.title = data);
</script>`);
  });
  server.on('upgrade', (request: IncomingMessage, socket: Socket) => {
    const key = request.headers['sec-websocket-key'] ?? '';
    const accept = createHash('sha1')
      .update(key + WEBSOCKET_GUID)
      .digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.on('error', () => {});
    socket.on('data', (frame: Buffer) => {
      // The page sends only one short masked text frame.
      if ((frame[0] & 0x0f) !== 1) return socket.end();
      const length = frame[1] & 0x7f;
      const text = Buffer.from(frame.subarray(6, 6 + length).map((byte, at) => byte ^ frame[2 + (at % 4)]));
      return socket.write(Buffer.concat([Uint8Array.of(0x81, length), text]));
    });
  });
  return server;
}

async function startServer(server: Server): Promise<AsyncDisposable & { readonly port: number }> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function curl(host: string, path: string, ...flags: readonly string[]) {
  return curlClient({ url: `http://${host}${path}`, connect: `127.0.0.1:${gateway.port}`, flags });
}

describe('curl', { skip }, () => {
  for (const name of ['nginx', 'haproxy']) {
    for (const [what, flags] of [
      ['a page', []],
      ['a page by HTTP/1.0', ['--http1.0']],
      ['a page, and h2 if it can be had', ['--http2']],
    ] as const) {
      test(`gets ${what} of ${name}`, async () => {
        const report = await curl(`${name}.test`, '/', ...flags);
        assert.deepEqual(
          [report.status, report.answer.toString()],
          [200, `${name} served ${name}.test to 127.0.0.1`],
          report.printed,
        );
      });
    }

    test(`sends HEAD to ${name}`, async () => {
      const report = await curl(`${name}.test`, '/', '--head');
      assert.equal(report.status, 200, report.printed);
      assert.match(report.answer.toString(), /^content-length: \d+/im);
    });

    for (const [what, flags] of [
      ['once told to continue', ['-H', 'Expect: 100-continue']],
      ['without asking', ['-H', 'Expect:']],
      ['in chunks', ['-H', 'Transfer-Encoding: chunked', '-H', 'Expect:']],
    ] as const) {
      test(`uploads through ${name}, ${what}`, async () => {
        const file = dir.file(`upload-${name}`);
        await writeFile(file, large.subarray(0, EXPECTED));
        const report = await curl(`${name}.test`, '/upload', '--verbose', '--upload-file', file, ...flags);
        const sha256 = createHash('sha256').update(large.subarray(0, EXPECTED)).digest('hex');
        assert.equal(report.answer.toString(), sha256, report.printed);
        if (what === 'once told to continue') assert.match(report.printed, /100 Continue/);
      });
    }
  }

  test('downloads a large file, and a range of it', async () => {
    const whole = await curl('nginx.test', '/large');
    assert.ok(whole.answer.equals(large), whole.printed);
    const part = await curl('nginx.test', '/large', '--range', '1000-1999');
    assert.equal(part.status, 206);
    assert.ok(part.answer.equals(large.subarray(1000, 2000)));
  });

  test('gets 413 from nginx before the whole upload is sent', async () => {
    const file = dir.file('too-large');
    await writeFile(file, large);
    const report = await curl('nginx.test', '/upload', '--upload-file', file, '-H', 'Expect: 100-continue');
    assert.equal(report.status, 413, report.printed);
  });

  test('is redirected to https', async () => {
    const report = await curl('moved.test', '/a?b', '--write-out', '%{response_code} %{redirect_url}');
    assert.equal(report.answer.toString(), '308 https://moved.test/a?b', report.printed);
  });

  test('one connection, two clusters', async () => {
    using visitor = await HttpClient.connect(gateway.port);
    for (const name of ['nginx', 'haproxy', 'nginx']) {
      const { status, body } = await visitor.get(`${name}.test`);
      assert.deepEqual([status, body.toString()], [200, `${name} served ${name}.test to 127.0.0.1`]);
    }
  });
});

test('Chromium loads pages of two clusters over http and https from one port, with a WebSocket each', {
  skip: skip || missingPrograms('chromium'),
}, async () => {
  const executablePath = findProgram('chromium') as string;
  const browser = await chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--ignore-certificate-errors',
      '--host-resolver-rules=MAP *.test 127.0.0.1',
    ],
  });
  try {
    const tab = await browser.newPage({ ignoreHTTPSErrors: true });
    for (const scheme of ['http', 'https']) {
      for (const name of ['one', 'two']) {
        await tab.goto(`${scheme}://${name}.test:${gateway.port}/`);
        await tab.waitForFunction(`document.title === '${scheme}: ${name}'`);
        for (const other of ['one', 'two']) {
          const url = `${scheme}://${other}.test:${gateway.port}/name`;
          assert.equal(await tab.evaluate(async address => (await fetch(address)).text(), url), other);
        }
      }
    }
  } finally {
    await browser.close();
  }
  for (const cluster of ['one', 'two']) {
    await gateway.line(line => line.msg === 'request' && line.cluster === cluster && line.status === 101);
    await gateway.line(
      line => line.msg === 'connection' && line.cluster === cluster && line.route === 'apps-https',
    );
  }
  await untilIdle(gateway);
  assertAlive(gateway);
});
