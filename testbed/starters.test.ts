// Every server of the test bed with its clients, without a gateway in between: a failure here is not
// the gateway's.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { after, test } from 'node:test';
import { authority, certificateFor } from './certificates.ts';
import { curlClient } from './curl-client.ts';
import { freePort } from './free-port.ts';
import { gnutlsClient } from './gnutls-client.ts';
import { goClient } from './go-client.ts';
import { bulkClient, startBulkServer, startGoServer } from './go-peer.ts';
import { javaClient } from './java-client.ts';
import { opensslClient } from './openssl-client.ts';
import { missingPrograms } from './packages.ts';
import type { Program } from './program.ts';
import { startGnutlsServer } from './start-gnutls-server.ts';
import { startHaproxy } from './start-haproxy.ts';
import { startNginx } from './start-nginx.ts';
import { startOpensslServer } from './start-openssl-server.ts';
import { tempDir } from './temp-dir.ts';

const HOST = 'api.a.test';
const HELLO = 'hello from a client\n';
const CLIENTS = { openssl: opensslClient, gnutls: gnutlsClient, go: goClient, java: javaClient };
const PROGRAMS = { openssl: ['openssl'], gnutls: ['gnutls-cli'], go: ['go'], java: ['java', 'javac'] };

const skipAll = missingPrograms('openssl');
/** Starters and clients put their files here, so that leftovers are found. */
const base = await tempDir();
process.env.TMPDIR = base.path;
after(() => base[Symbol.asyncDispose]());

/** After its scope a program must leave no process, port or file. */
async function assertGone({ pid }: Program, port: number): Promise<void> {
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  const server = createServer().listen({ port, exclusive: true });
  await once(server, 'listening');
  server.close();
  const left = (await readdir(base.path)).filter(name => !name.startsWith('causeway-certificates-'));
  assert.deepEqual(left, []);
}

for (const [name, client] of Object.entries(CLIENTS)) {
  const skip = skipAll || missingPrograms(...PROGRAMS[name as keyof typeof PROGRAMS]);

  test(`${name}Client() gets the answer of openssl s_server and leaves nothing behind`, {
    skip,
  }, async () => {
    const { certFile: ca } = await authority();
    const server = await startOpensslServer(await certificateFor(HOST));
    {
      await using _ = server;
      const connect = `127.0.0.1:${server.port}`;
      const options = { connect, serverName: HOST, input: HELLO, answerBytes: HELLO.length, ca };
      const { handshake, answer, alert, printed } = await client(options);
      assert.ok(handshake, printed);
      assert.equal(answer.toString(), `${[...HELLO.trim()].toReversed().join('')}\n`, printed);
      assert.equal(alert, undefined);
    }
    await assertGone(server, server.port);
  });

  test(`${name}Client() gets the answer of gnutls-serv, and its ALPN`, {
    skip: skip || missingPrograms('gnutls-serv'),
  }, async () => {
    const { certFile: ca } = await authority();
    const server = await startGnutlsServer({ ...(await certificateFor(HOST)), alpn: ['my-proto', 'h2'] });
    {
      await using _ = server;
      const connect = `127.0.0.1:${server.port}`;
      const options = {
        connect,
        serverName: HOST,
        alpn: ['h2'],
        input: HELLO,
        answerBytes: HELLO.length,
        ca,
      };
      const { answer, alpn, printed } = await client(options);
      assert.equal(answer.toString(), HELLO, printed);
      if (name !== 'openssl') assert.equal(alpn, 'h2', printed);
    }
    await assertGone(server, server.port);
  });

  test(`${name}Client() sends SNI and ALPN, or no SNI, as a Go server sees it`, {
    skip: skip || missingPrograms('go'),
  }, async () => {
    await using server = await startGoServer({ ...(await certificateFor(HOST, '127.0.0.1')), alpn: ['h2'] });
    const common = { connect: `127.0.0.1:${server.port}`, input: HELLO, answerBytes: HELLO.length };
    const { certFile: ca } = await authority();
    assert.equal((await client({ ...common, ca, serverName: HOST, alpn: ['h2'] })).answer.toString(), HELLO);
    assert.equal((await client({ ...common, ca })).answer.toString(), HELLO);
    await server.logged(/^\{.*\n\{.*\}$/m);
    const seen = server.reports().map(({ sni, alpn }) => [sni, alpn]);
    assert.deepEqual(seen, [
      [HOST, 'h2'],
      ['', ''],
    ]);
  });

  test(`${name}Client() reports the alert that it received`, { skip }, async () => {
    const alert = Buffer.from([21, 3, 1, 0, 2, 2, 112]); // RFC 6066 3: unrecognized_name
    const server = createServer(socket => socket.once('data', () => socket.end(alert)).on('error', () => {}));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const report = await client({ connect: `127.0.0.1:${port}`, serverName: HOST, input: HELLO });
    server.close();
    assert.deepEqual([report.handshake, report.alert], [false, 112], report.printed);
  });

  test(`${name}Client() does not trust a stranger's certificate`, { skip }, async () => {
    // Signed by our authority, so a client that trusts only this certificate refuses it.
    const { certFile: ca } = await certificateFor('elsewhere.test');
    await using server = await startOpensslServer(await certificateFor(HOST));
    const report = await client({ connect: `127.0.0.1:${server.port}`, serverName: HOST, input: HELLO, ca });
    assert.deepEqual([report.handshake, report.answer.length], [false, 0], report.printed);
  });
}

const skipGo = skipAll || missingPrograms('go');

test('goClient() sends a post-quantum key share by default', { skip: skipGo }, async () => {
  await using server = await startGoServer(await certificateFor(HOST));
  const report = await goClient({ connect: `127.0.0.1:${server.port}`, serverName: HOST, answerBytes: 0 });
  assert.deepEqual([report.curve, report.version], ['X25519MLKEM768', 'TLS 1.3']);
});

test('goClient() gets back everything it sent after it closed its side', { skip: skipGo }, async () => {
  await using server = await startGoServer(await certificateFor(HOST));
  const connect = `127.0.0.1:${server.port}`;
  const report = await goClient({ connect, serverName: HOST, size: 3_000_000, seed: 7, halfClose: true });
  assert.equal(report.error, '');
  assert.equal(report.receivedBytes, 3_000_000);
  assert.equal(report.receivedSha256, report.sentSha256);
});

test('bulkClient() and startBulkServer() send both ways at once, and each receives what the other sent', {
  skip: skipGo,
}, async () => {
  const bytes = 8 << 20;
  const { certFile: ca } = await authority();
  const server = await startBulkServer({ ...(await certificateFor(HOST)), bytes, seed: 1 });
  {
    await using _ = server;
    const near = await bulkClient({
      connect: `127.0.0.1:${server.port}`,
      serverName: HOST,
      ca,
      bytes,
      seed: 2,
    });
    await server.logged(/^\{.*\}$/m);
    const [far] = server.reports();
    assert.deepEqual([near.error, far?.error], ['', '']);
    assert.deepEqual([near.receivedBytes, far?.receivedBytes], [bytes, bytes]);
    assert.deepEqual([near.receivedSha256, far?.receivedSha256], [far?.sentSha256, near.sentSha256]);
    assert.notEqual(near.sentSha256, far?.sentSha256);
  }
  await assertGone(server, server.port);
});

const skipCurl = skipAll || missingPrograms('curl');

test('curlClient() gets a page from openssl s_server', { skip: skipCurl }, async () => {
  const { certFile: ca } = await authority();
  await using server = await startOpensslServer({ ...(await certificateFor(HOST)), answer: 'www' });
  const report = await curlClient({ url: `https://${HOST}/`, connect: `127.0.0.1:${server.port}`, ca });
  assert.equal(report.status, 200, report.printed);
  assert.ok(report.handshake);
  assert.match(report.answer.toString(), /s_server -accept/);
});

test('curlClient() reports the alert that it received', { skip: skipCurl }, async () => {
  const alert = Buffer.from([21, 3, 1, 0, 2, 2, 80]); // internal_error
  const server = createServer(socket => socket.once('data', () => socket.end(alert)).on('error', () => {}));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const report = await curlClient({ url: `https://${HOST}/`, connect: `127.0.0.1:${port}` });
  server.close();
  assert.deepEqual([report.handshake, report.alert, report.status], [false, 80, 0], report.printed);
});

test('startHaproxy() passes TLS by SNI, answers on its socket, and leaves nothing behind', {
  skip: skipCurl || missingPrograms('haproxy'),
}, async () => {
  const { certFile: ca } = await authority();
  await using backend = await startOpensslServer({ ...(await certificateFor(HOST)), answer: 'www' });
  const port = await freePort();
  const proxy = await startHaproxy({
    config: `
defaults
  mode tcp
  timeout connect 2s
  timeout client 10s
  timeout server 10s
frontend front
  bind 127.0.0.1:${port}
  tcp-request inspect-delay 2s
  tcp-request content accept if { req.ssl_hello_type 1 }
  use_backend a if { req.ssl_sni ${HOST} }
backend a
  server one 127.0.0.1:${backend.port}`,
  });
  {
    await using _ = proxy;
    const report = await curlClient({ url: `https://${HOST}/`, connect: `127.0.0.1:${port}`, ca });
    assert.equal(report.status, 200, report.printed);
    assert.match(await proxy.runtime('show stat'), /^a,one,/m);
  }
  await assertGone(proxy, port);
});

test('startHaproxy() shows what HAProxy prints about a bad configuration, and leaves nothing behind', {
  skip: missingPrograms('haproxy'),
}, async () => {
  await assert.rejects(startHaproxy({ config: 'frontend x\n  bnd :1' }), /unknown keyword 'bnd'/);
  assert.ok((await readdir(base.path)).every(name => name.startsWith('causeway-certificates-')));
});

const skipNginx = skipCurl || missingPrograms('nginx');

test('startNginx() serves HTTP over TLS with HTTP/2, and leaves nothing behind', {
  skip: skipNginx,
}, async () => {
  const { certFile: ca } = await authority();
  const { certFile, keyFile } = await certificateFor(HOST);
  const port = await freePort();
  const server = await startNginx({
    http: `server {
      listen 127.0.0.1:${port} ssl http2;
      ssl_certificate ${certFile};
      ssl_certificate_key ${keyFile};
      location / { return 200 "cluster a"; }
    }`,
  });
  {
    await using _ = server;
    const report = await curlClient({ url: `https://${HOST}/`, connect: `127.0.0.1:${port}`, ca, http: '2' });
    assert.deepEqual(
      [report.status, report.answer.toString(), report.alpn],
      [200, 'cluster a', 'h2'],
      report.printed,
    );
  }
  await assertGone(server, port);
});

test('startNginx() passes TLS by SNI with its stream module, and leaves nothing behind', {
  skip: skipNginx,
}, async () => {
  const { certFile: ca } = await authority();
  await using backend = await startOpensslServer({ ...(await certificateFor(HOST)), answer: 'www' });
  const port = await freePort();
  const proxy = await startNginx({
    stream: `
      map $ssl_preread_server_name $upstream { ${HOST} 127.0.0.1:${backend.port}; }
      server { listen 127.0.0.1:${port}; ssl_preread on; proxy_pass $upstream; }`,
  });
  {
    await using _ = proxy;
    const report = await curlClient({ url: `https://${HOST}/`, connect: `127.0.0.1:${port}`, ca });
    assert.equal(report.status, 200, report.printed);
  }
  await assertGone(proxy, port);
});

test('startNginx() shows what nginx prints about a bad configuration, and leaves nothing behind', {
  skip: skipNginx,
}, async () => {
  await assert.rejects(startNginx({ http: 'sever { }' }), /unknown directive "sever"/);
  assert.ok((await readdir(base.path)).every(name => name.startsWith('causeway-certificates-')));
});

test('certificateFor() returns the same certificate for the same names, and another for other names', {
  skip: skipAll,
}, async () => {
  const first = await certificateFor(HOST, '127.0.0.1', '::1');
  assert.equal(await certificateFor(HOST, '127.0.0.1', '::1'), first);
  assert.notEqual((await certificateFor(HOST)).certFile, first.certFile);
});
