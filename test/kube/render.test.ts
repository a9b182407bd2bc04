// What `causeway render` prints for kubectl, in a real API server with the real CustomResourceDefinitions, and in a real
// Traefik that serves with nothing but that.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { connect } from 'node:tls';
import { authority } from '../../testbed/certificates.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { gatewayApiFlags, installGatewayApi } from '../../testbed/install-gateway-api.ts';
import { installTraefik, traefikFlags } from '../../testbed/install-traefik.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { startTraefik, type Traefik } from '../../testbed/start-traefik.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';

const skip =
  missingPrograms('openssl', 'curl', 'go') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const skipTraefik = missingNetns() || missingGoPrograms('traefik');
const TIMEOUT_MS = 300_000;
const TLS_SERVER = `
const [name, cert, key, host] = process.argv.slice(1);
const { readFileSync } = require('node:fs');
const server = require('node:tls').createServer({ cert: readFileSync(cert), key: readFileSync(key) }, socket => {
  socket.on('error', () => {}).resume();
  socket.end(name);
});
server.listen(0, host, () => console.log('listens on ' + server.address().port));
`;

/** What `causeway render` prints, and `kubectl apply` of it. */
async function render(yaml: string, ...args: readonly string[]): Promise<string> {
  await using dir = await tempDir();
  await writeFile(dir.file('causeway.yaml'), yaml);
  const { code, stdout, stderr } = await run(causewayBin, [
    'render',
    ...args,
    '-c',
    dir.file('causeway.yaml'),
  ]);
  assert.equal(code, 0, stderr);
  return stdout.toString();
}

async function apply(server: ApiServer, text: string, ...flags: readonly string[]): Promise<string[]> {
  await using dir = await tempDir();
  await writeFile(dir.file('objects.yaml'), text);
  const said = await server.kubectl('apply', ...flags, '-f', dir.file('objects.yaml'));
  return said.trim().split('\n');
}

/** All of the file that becomes an object: both families, other ports, names, many hosts, odd cluster names. */
const FILE = `
listen: [{ on: ":6443", only: [api, konnectivity] }, ":443", ":80"]
clusters:
  - name: managed1
    id: 0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11
    api: { hosts: [api.managed1.lab], backends: ["192.0.2.1:6443", "192.0.2.2:6443", "[2001:db8::1]:6443", "192.0.2.3:7443"] }
    konnectivity: { hosts: [konnectivity.managed1.lab], backends: ["192.0.2.1:8132"] }
    apps: { hosts: ["*.apps.managed1.lab"], https: ["192.0.2.4:443"], http: redirect }
  - name: 2nd-${'x'.repeat(59)}
    api: { hosts: [${Array.from({ length: 40 }, (_, i) => `api${i}.second.lab`).join(', ')}], backends: ["[2001:db8::2]:6443"] }
  - name: named
    api: { hosts: [api.named.lab], backends: ["cp1.named.lab:6443"] }
    routes: { oauth: { hosts: [oauth.named.lab], backends: ["192.0.2.9:443"] } }
`;

const flavors = ['haproxy', 'haproxy-ingress', 'nginx', 'cilium', 'generic'];
const targets: readonly (readonly string[])[] = [
  ...flavors.map(flavor => ['ingress', '--flavor', flavor]),
  ['ingress-route-tcp'],
  ['tls-route'],
  ['transport-server'],
  ['dns-endpoint', '--address', '203.0.113.10', '--address', '2001:db8::10'],
];

describe('causeway render in a real API server', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let server: ApiServer;

  before(async () => {
    server = stack.use(await startApiServer());
    for (const [file, resource] of [
      ['traefik-ingressroutetcps', 'ingressroutetcps.traefik.io'],
      ['gateway-api-gateways', 'gateways.gateway.networking.k8s.io'],
      ['gateway-api-tlsroutes', 'tlsroutes.gateway.networking.k8s.io'],
      ['nginx-transportservers', 'transportservers.k8s.nginx.org'],
      ['external-dns-dnsendpoints', 'dnsendpoints.externaldns.k8s.io'],
    ] as const) {
      await installDefinition(server, file, resource);
    }
  });
  after(() => stack.disposeAsync());

  for (const args of targets) {
    test(`${args.join(' ')}: is accepted, and unchanged the second time`, async () => {
      const namespace = args
        .filter(arg => !/[.:]/.test(arg))
        .join('-')
        .replaceAll('--', '');
      await server.kubectl('create', 'namespace', namespace);
      const text = await render(FILE, ...args);
      assert.equal(await render(FILE, ...args), text, 'the same text twice');
      await apply(server, text, '-n', namespace, '--dry-run=server', '--validate=strict');
      const created = await apply(server, text, '-n', namespace, '--validate=strict');
      assert.ok(created.length >= 3, `${created.length} objects`);
      assert.deepEqual(
        created.filter(line => !line.endsWith(' created')),
        [],
      );
      const again = await apply(server, await render(FILE, ...args, '--namespace', namespace));
      assert.deepEqual(
        again.filter(line => !line.endsWith(' unchanged')),
        [],
      );
      assert.equal(again.length, created.length);
    });
  }
});

describe('Traefik with what causeway render prints', {
  skip: skip || skipTraefik,
  timeout: TIMEOUT_MS,
}, () => {
  const stack = new AsyncDisposableStack();
  let host: Netns;
  let file: string;

  before(async () => {
    host = stack.use(await netns({ name: 'render' }));
    const [api, apps, other] = await Promise.all(['api', 'apps', 'other'].map(startTls));
    // Two backends of one route have different addresses and ports: Traefik takes one port of an address.
    file = `
listen: [":443"]
clusters:
  - name: edge
    api: { hosts: [api.edge.test], backends: ["${api}", "${other}"] }
    apps: { hosts: ["*.apps.edge.test"], https: ["${apps}"] }
`;
  });
  after(() => stack.disposeAsync());

  /** A TLS server that says its name, on this machine or in the namespace. Endpoints must not be loopback addresses. */
  async function startTls(name: string): Promise<string> {
    const { certFile, keyFile } = await (await authority()).certificateFor('edge.test');
    const isInside = name === 'other';
    const server = stack.use(
      await startProgram({
        command: process.execPath,
        args: ['-e', TLS_SERVER, name, certFile, keyFile, isInside ? host.address : host.machine],
        netns: isInside ? host : undefined,
        ready: { log: /listens on \d+/ },
      }),
    );
    const [, port] = await server.logged(/listens on (\d+)/);
    return `${isInside ? host.address : host.machine}:${port}`;
  }

  /** What the server behind a host says; empty where there is none, and Traefik itself answers. */
  async function say({ port }: Traefik, servername: string): Promise<string> {
    const socket = connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false });
    let said = '';
    socket.setEncoding('utf8').on('data', text => (said += text));
    const { promise, resolve } = Promise.withResolvers<void>();
    socket.on('error', () => resolve()).on('close', () => resolve());
    socket.write('GET / HTTP/1.0\r\n\r\n');
    await promise;
    return said.startsWith('HTTP/') ? '' : said;
  }

  /** Every route of the file, and both backends of the first. */
  async function serves(traefik: Traefik): Promise<void> {
    await until('apps', async () => (await say(traefik, 'a.apps.edge.test')) === 'apps', 60_000);
    const said = new Set<string>();
    await until('both backends', async () => {
      said.add(await say(traefik, 'api.edge.test'));
      return said.has('api') && said.has('other');
    });
    assert.equal(await say(traefik, 'other.edge.test'), '');
  }

  test('ingress-route-tcp is served', async () => {
    await using server = await startApiServer();
    await installTraefik(server);
    await using traefik = await startTraefik({ routes: {}, flags: traefikFlags(server) });
    await apply(server, await render(file, 'ingress-route-tcp', '--entry-point', 'tls'));
    await serves(traefik);
  });

  test('tls-route is served, with the Gateway', async () => {
    await using server = await startApiServer();
    await installGatewayApi(server);
    await using traefik = await startTraefik({ routes: {}, flags: gatewayApiFlags(server) });
    // Traefik takes listeners whose port is that of an entry point.
    const listening = file.replace(':443"]', `:${traefik.port}"]`);
    const args = ['--class-name', 'traefik', '--api-version', 'v1alpha2'];
    await apply(server, await render(listening, 'tls-route', ...args));
    await serves(traefik);
  });
});
