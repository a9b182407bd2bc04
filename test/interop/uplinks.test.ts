// The uplinks `tunnel` and `terminate` through common routers: Traefik, HAProxy, nginx and our own gateway,
// each passing TLS through by SNI. Also third-party clients behind every uplink.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { clusterKey } from '../../src/identity/cluster-key.ts';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { curlClient } from '../../testbed/curl-client.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { goClient } from '../../testbed/go-client.ts';
import { javaClient } from '../../testbed/java-client.ts';
import { missingNetns, netns } from '../../testbed/netns.ts';
import { opensslClient } from '../../testbed/openssl-client.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startAgent } from '../../testbed/start-agent.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { startNginx } from '../../testbed/start-nginx.ts';
import { startTraefik } from '../../testbed/start-traefik.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { supports } from '../features/engine.ts';

const skip = missingPrograms('openssl', 'curl');
const TIMEOUT_MS = 600_000;
const ID = 'a-1';
const API_HOST = 'api.a.test';
const TUNNEL_HOST = 'tunnel.example.com';
const SECRET = 'a secret for tests, of at least 32 bytes';

const uplinks = ['proxy', 'connect', 'tunnel', 'terminate'] as const;
type Uplink = (typeof uplinks)[number];
/** Those that the gateway's engine serves. */
const servedUplinks = uplinks.filter(
  uplink => (uplink !== 'connect' || supports('connect')) && (uplink !== 'tunnel' || supports('signatures')),
);

const stack = new AsyncDisposableStack();
let dir: TempDir;
let server: Server;
let gateway: Causeway;
let caFile: string;

before(async () => {
  if (skip !== false) return;
  dir = stack.use(await tempDir());
  server = stack.use(await startServer());
  ({ certFile: caFile } = await authority());
  const { certFile, keyFile } = await certificateFor(TUNNEL_HOST);
  await writeFile(dir.file('secret'), `${SECRET}\n`);
  const key = clusterKey(Buffer.from(SECRET), ID);
  await writeFile(dir.file('key'), `${Buffer.from(key).toString('base64url')}\n`);
  const tunnelEnd = `
identity: { secretFile: ${dir.file('secret')} }
tunnel: { hosts: [${TUNNEL_HOST}], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }`;
  gateway = stack.use(
    await startCauseway({
      config: `
listen: [{ on: ":0", agents: [127.0.0.0/8] }]
${supports('signatures') ? tunnelEnd : ''}
clusters:
  - { name: a, id: ${ID}, api: { hosts: [${API_HOST}], backends: ["127.0.0.1:${server.port}"] } }`,
    }),
  );
});
after(() => stack.disposeAsync());

async function flags(uplink: Uplink): Promise<string[]> {
  if (uplink === 'tunnel')
    return ['--key-file', dir.file('key'), '--server-name', TUNNEL_HOST, '--ca-file', caFile];
  if (uplink !== 'terminate') return [];
  const shown = await certificateFor('127.0.0.1', 'kubernetes.default.svc');
  const own = ['--cert-file', shown.certFile, '--cert-key-file', shown.keyFile];
  return ['--server-name', API_HOST, '--ca-file', caFile, ...own];
}

interface Seen {
  /** Subject of the client's certificate; null without one. */
  readonly user: string | null;
  readonly version: string;
}

/** What the server reports about curl with a certificate. */
async function visit(port: number, http: '1.1' | '2'): Promise<Seen> {
  const user = await (await authority()).clientCertificate({ user: 'jane' });
  const { answer, printed } = await curlClient({
    url: `https://127.0.0.1:${port}/`,
    ca: caFile,
    http,
    flags: ['--cert', user.certFile, '--key', user.keyFile],
  });
  assert.ok(answer.length > 0, printed);
  return JSON.parse(answer.toString()) as Seen;
}

const HAPROXY = (port: number) => `
defaults
  mode tcp
  timeout connect 5s
  timeout client 1m
  timeout server 1m
frontend front
  bind 127.0.0.1:${port}
  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_hello_type 1 }
  use_backend tunnel if { req.ssl_sni -i ${TUNNEL_HOST} }
  use_backend api if { req.ssl_sni -i ${API_HOST} }
backend tunnel
  server gateway 127.0.0.1:${gateway.port}
backend api
  server one 127.0.0.1:${server.port}`;

const NGINX = (port: number) => `
map $ssl_preread_server_name $to {
  ${TUNNEL_HOST} 127.0.0.1:${gateway.port};
  ${API_HOST} 127.0.0.1:${server.port};
}
server { listen 127.0.0.1:${port}; ssl_preread on; proxy_pass $to; }`;

/** Starts a router that passes TLS through by SNI: the tunnel host to the gateway, the API host to its server. */
const routers: Readonly<
  Record<
    string,
    { readonly skip: string | false; start(): Promise<AsyncDisposable & { readonly port: number }> }
  >
> = {
  'our own gateway': {
    skip: false,
    start: () =>
      startCauseway({
        config: `
listen: ["127.0.0.1:0"]
clusters:
  - { name: tunnel, routes: { tunnel: { hosts: [${TUNNEL_HOST}], backends: ["127.0.0.1:${gateway.port}"] } } }
  - { name: a, api: { hosts: [${API_HOST}], backends: ["127.0.0.1:${server.port}"] } }`,
      }),
  },
  Traefik: {
    skip: missingGoPrograms('traefik'),
    start: () =>
      startTraefik({
        routes: { [TUNNEL_HOST]: `127.0.0.1:${gateway.port}`, [API_HOST]: `127.0.0.1:${server.port}` },
      }),
  },
  "the machine's HAProxy": {
    skip: missingPrograms('haproxy'),
    start: () => withPort(port => startHaproxy({ config: HAPROXY(port) })),
  },
  'HAProxy 3.0': {
    skip: missingPrograms('debootstrap', 'dpkg-deb'),
    start: () => withPort(port => startHaproxy({ version: '3.0', config: HAPROXY(port) })),
  },
  nginx: {
    skip: missingPrograms('nginx'),
    start: () => withPort(port => startNginx({ stream: NGINX(port) })),
  },
};

async function withPort<T extends AsyncDisposable>(
  start: (port: number) => Promise<T>,
): Promise<T & { readonly port: number }> {
  const port = await freePort();
  return { ...(await start(port)), port };
}

for (const [name, router] of Object.entries(routers)) {
  describe(`through ${name}`, { skip: skip || router.skip, timeout: TIMEOUT_MS }, () => {
    if (supports('signatures')) {
      test('tunnel keeps the client certificate, and h2', async () => {
        await using between = await router.start();
        const to = `127.0.0.1:${between.port}`;
        await using agent = await startAgent({
          uplink: 'tunnel',
          gateway: to,
          id: ID,
          args: await flags('tunnel'),
        });
        assert.deepEqual(await visit(agent.port, '1.1'), { user: 'jane', version: '1.1' });
        assert.deepEqual(await visit(agent.port, '2'), { user: 'jane', version: '2.0' });
      });
    }

    test('terminate keeps ALPN, loses the certificate and logs that', async () => {
      await using between = await router.start();
      const to = `127.0.0.1:${between.port}`;
      const args = await flags('terminate');
      await using agent = await startAgent({ uplink: 'terminate', gateway: to, id: ID, args });
      assert.deepEqual(await visit(agent.port, '1.1'), { user: null, version: '1.1' });
      assert.deepEqual(await visit(agent.port, '2'), { user: null, version: '2.0' });
      assert.match(
        String((await agent.line(line => line.msg === 'client certificate lost')).why),
        /\(jane\)/,
      );
    });
  });
}

describe('clients that send no SNI', { skip, timeout: TIMEOUT_MS }, () => {
  for (const uplink of servedUplinks) {
    test(`by ${uplink}: openssl, curl, Go and Java`, async () => {
      const to = `127.0.0.1:${gateway.port}`;
      await using agent = await startAgent({ uplink, gateway: to, id: ID, args: await flags(uplink) });
      const connect = `127.0.0.1:${agent.port}`;
      const input = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
      const options = { connect, input, alpn: ['http/1.1'], ca: caFile };
      const { version } = await visit(agent.port, '2');
      assert.equal(version, '2.0');
      const answers = {
        openssl: await opensslClient({ ...options, answerBytes: 100 }),
        ...(missingGoPrograms('go-client') === false && { go: await goClient(options) }),
        ...(missingPrograms('java', 'javac') === false && { java: await javaClient(options) }),
      };
      for (const [name, { answer, printed }] of Object.entries(answers))
        assert.match(answer.toString(), /^HTTP\/1\.1 200 /, `${name}: ${printed}`);
    });
  }
});

test('the gateway’s name is resolved again when its address changes', {
  skip: skip || missingNetns(),
  timeout: TIMEOUT_MS,
}, async () => {
  await using node = await netns({ resolver: '127.0.0.1' });
  // ip-netns(8): these files are bind-mounted over /etc.
  const hosts = `/etc/netns/${node.name}/hosts`;
  for (const uplink of servedUplinks.filter(uplink => uplink === 'connect' || uplink === 'tunnel')) {
    await writeFile(hosts, `${node.address} gateway.test\n`);
    await using agent = await startAgent({
      uplink,
      gateway: `gateway.test:${gateway.port}`,
      id: ID,
      on: `${node.address}:0`,
      args: await flags(uplink),
      netns: node,
    });
    const ask = async () =>
      (await curlClient({ url: `https://${node.address}:${agent.port}/`, netns: node })).status;
    assert.equal(await ask(), 0, 'nobody listens where the name leads');
    await writeFile(hosts, `${node.machine} gateway.test\n`);
    // This node is not in `agents`: the refusal shows that the gateway was reached.
    const isReached = async () =>
      (await ask()) === 200 || agent.lines().some(line => /403: untrusted-agent/.test(String(line.why)));
    for (let visits = 0; !(await isReached()); visits++) assert.ok(visits < 20, agent.program.log());
  }
});

interface Server extends AsyncDisposable {
  readonly port: number;
}

/** Reports the subject of the client certificate and the HTTP version. */
async function startServer(): Promise<Server> {
  const { certFile, keyFile } = await certificateFor(API_HOST, '127.0.0.1');
  const sockets = new Set<Socket>();
  const server = createSecureServer({
    cert: await readFile(certFile),
    key: await readFile(keyFile),
    ca: await readFile((await authority()).certFile),
    allowHTTP1: true,
    requestCert: true,
    rejectUnauthorized: false,
  });
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('request', (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const socket = (request.stream?.session?.socket ?? request.socket) as TLSSocket;
    const subject = socket.getPeerCertificate().subject as { CN?: string } | undefined;
    response.end(JSON.stringify({ user: subject?.CN ?? null, version: request.httpVersion }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
