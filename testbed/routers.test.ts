// The routers and name servers of interop tests, without a gateway: Traefik, HAProxy 3.0,
// CoreDNS. HAProxy 2.6 and nginx are in starters.test.ts.

import assert from 'node:assert/strict';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { authority, certificateFor } from './certificates.ts';
import { curlClient } from './curl-client.ts';
import { freePort } from './free-port.ts';
import { missingGoPrograms } from './go-build.ts';
import { missingNetns, netns } from './netns.ts';
import { missingPrograms } from './packages.ts';
import { startCoredns } from './start-coredns.ts';
import { startHaproxy } from './start-haproxy.ts';
import { startNginx } from './start-nginx.ts';
import { startOpensslServer } from './start-openssl-server.ts';
import { startTraefik } from './start-traefik.ts';

const [A, B] = ['api.a.test', 'api.b.test'];
const TIMEOUT_MS = 600_000;
const skip = missingPrograms('openssl', 'curl');
const skipHaproxy = skip || missingPrograms('debootstrap', 'dpkg-deb');

const HAPROXY_DEFAULTS = `
defaults
  mode tcp
  timeout connect 2s
  timeout client 20s
  timeout server 20s`;

/** A server that reports the name in its certificate. */
async function startBackend(host: string) {
  return startOpensslServer({ ...(await certificateFor(host)), answer: 'www' });
}

/** The status of a page, with the host's own certificate. */
async function visit(host: string, port: number): Promise<number> {
  const { certFile: ca } = await authority();
  return (await curlClient({ url: `https://${host}/`, connect: `127.0.0.1:${port}`, ca })).status;
}

test('startTraefik() passes TLS through by SNI, and applies new routes', {
  skip: skip || missingGoPrograms('traefik'),
  timeout: TIMEOUT_MS,
}, async () => {
  await using a = await startBackend(A);
  await using b = await startBackend(B);
  await using router = await startTraefik({
    routes: { [A]: `127.0.0.1:${a.port}`, [B]: `127.0.0.1:${b.port}` },
  });
  assert.deepEqual([await visit(A, router.port), await visit(B, router.port)], [200, 200]);
  assert.equal(await visit('api.c.test', router.port), 0);

  await using c = await startBackend('api.c.test');
  await router.write({ 'api.c.test': `127.0.0.1:${c.port}` });
  while ((await visit('api.c.test', router.port)) !== 200) await delay(100);
  assert.equal(await visit(A, router.port), 0);
});

test('startHaproxy() 3.0 routes by SNI', { skip: skipHaproxy, timeout: TIMEOUT_MS }, async () => {
  await using a = await startBackend(A);
  await using b = await startBackend(B);
  const port = await freePort();
  await using proxy = await startHaproxy({
    version: '3.0',
    config: `${HAPROXY_DEFAULTS}
frontend front
  bind 127.0.0.1:${port}
  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_hello_type 1 }
  use_backend a if { req.ssl_sni ${A} }
  use_backend b if { req.ssl_sni ${B} }
backend a
  server one 127.0.0.1:${a.port}
backend b
  server one 127.0.0.1:${b.port}`,
  });
  assert.match(await proxy.runtime('show info'), /^Version: 3\.0\./m);
  assert.deepEqual([await visit(A, port), await visit(B, port)], [200, 200]);
});

for (const [family, host, head, length] of [
  ['IPv4', '127.0.0.1', '2111 0033', 67],
  ['IPv6', '::1', '2121 004b', 91],
] as const) {
  test(`startHaproxy() 3.0 sends the ${length} bytes of a HyperShift node over ${family}`, {
    skip: skipHaproxy,
    timeout: TIMEOUT_MS,
  }, async () => {
    const id = '0b2e9a53-7c1f-4d6e-8a90-5f3c2d1e4b67';
    const { promise: received, resolve } = Promise.withResolvers<Buffer>();
    const chunks: Buffer[] = [];
    const receiver = createServer(socket => {
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      socket.on('end', () => {
        resolve(Buffer.concat(chunks));
        socket.end();
      });
    }).listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    const port = await freePort();
    await using _ = await startHaproxy({
      version: '3.0',
      // As HyperShift's kube-apiserver-proxy does it.
      config: `${HAPROXY_DEFAULTS}
frontend local_apiserver
  bind ${host}:${port}
  default_backend remote_apiserver
backend remote_apiserver
  server controlplane 127.0.0.1:${(receiver.address() as AddressInfo).port} send-proxy-v2 set-proxy-v2-tlv-fmt(0x20) %[str(${id})]`,
    });
    const client = connect({ host, port });
    await once(client, 'connect');
    const { localPort } = client;
    client.end('then the hello');
    const bytes = await received;
    receiver.close();

    const address = family === 'IPv4' ? '7f000001' : `${'0'.repeat(31)}1`;
    const ports = [localPort as number, port].map(number => number.toString(16).padStart(4, '0')).join('');
    const expected = `0d0a0d0a000d0a515549540a ${head} ${address} ${address} ${ports} 20 0024 ${Buffer.from(id).toString('hex')}`;
    assert.equal(bytes.subarray(0, length).toString('hex'), expected.replaceAll(' ', ''));
    assert.equal(bytes.subarray(length).toString(), 'then the hello');
    assert.ok((chunks[0]?.length ?? 0) >= length, 'the header is in one piece');
  });
}

test('startHaproxy() and startNginx() serve on an address that only their network namespace has', {
  skip: skipHaproxy || missingPrograms('haproxy', 'nginx') || missingNetns(),
  timeout: TIMEOUT_MS,
}, async () => {
  await using node = await netns({ lo: ['172.20.0.1'] });
  const greet = (port: number, word: string) => `
frontend f${port}
  mode http
  bind 172.20.0.1:${port}
  http-request return status 200 content-type text/plain string ${word}`;
  await using _old = await startHaproxy({ netns: node, config: HAPROXY_DEFAULTS + greet(8081, 'machine') });
  await using _new = await startHaproxy({
    netns: node,
    version: '3.0',
    config: HAPROXY_DEFAULTS + greet(8082, 'three'),
  });
  await using _nginx = await startNginx({
    netns: node,
    http: 'server { listen 172.20.0.1:8083; location / { return 200 "nginx"; } }',
  });
  const words: string[] = [];
  for (const port of [8081, 8082, 8083])
    words.push((await curlClient({ url: `http://172.20.0.1:${port}/`, netns: node })).answer.toString());
  assert.deepEqual(words, ['machine', 'three', 'nginx']);
});

test('startCoredns() answers', { skip: missingGoPrograms('coredns'), timeout: TIMEOUT_MS }, async () => {
  await using dns = await startCoredns({
    plugins: `hosts {
      192.0.2.7 ${A}
      2001:db8::7 ${A}
    }`,
  });
  const resolver = new Resolver();
  resolver.setServers([`127.0.0.1:${dns.port}`]);
  assert.deepEqual(await resolver.resolve4(A), ['192.0.2.7']);
  assert.deepEqual(await resolver.resolve6(A), ['2001:db8::7']);
  await assert.rejects(resolver.resolve4('elsewhere.test'));
});
