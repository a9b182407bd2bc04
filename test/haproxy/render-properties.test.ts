// Properties of `causeway render haproxy`: HAProxy accepts whatever a valid file renders to, and sends a host where our
// own table would.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { Config } from '../../src/config/config.ts';
import { readConfig } from '../../src/config/read-config.ts';
import { Explainer } from '../../src/gateway/table/explain.ts';
import { readHaproxyVersion } from '../../src/haproxy/haproxy-version.ts';
import { renderHaproxy } from '../../src/haproxy/render-haproxy.ts';
import { freePort } from '../../testbed/free-port.ts';
import { haproxyBuild } from '../../testbed/haproxy-build.ts';
import { findProgram, missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, connectClient, hello } from '../features/given.ts';

const skip = missingPrograms('haproxy', 'debootstrap');

/** Each starts HAProxy twice, in 50 ms. */
const FILES = 30;
/** Each starts HAProxy once and makes a connection for each host. */
const TABLES = 8;

function configOf(yaml: string): Config {
  const read = readConfig(yaml, 'causeway.yaml');
  if (!read.ok) assert.fail(`${JSON.stringify(read.mistakes)}\n${yaml}`);
  return read.config;
}

const cidrs = fc.subarray(['10.0.0.0/8', '192.0.2.1/32', '2001:db8::/32', '::/0', '0.0.0.0/0'], {
  minLength: 1,
});
const backends = fc.subarray(['192.0.2.1:1', '[2001:db8::1]:65535', '127.0.0.1:443', 'localhost:80']);
const duration = fc.constantFrom('1ms', '1500ms', '5s', '90s', '10m', '36h', '596h');

const pool = (checks: readonly string[]) =>
  fc.record(
    {
      backends,
      balance: fc.constantFrom('source', 'host', 'round-robin', 'least-connections', 'random'),
      proxyProtocol: fc.constantFrom('none', 'v1', 'v2'),
      allow: fc.oneof(cidrs, fc.constant([])),
      health: fc.constantFrom(...checks).chain(check =>
        fc.record(
          {
            check: fc.constant(check),
            every: duration,
            timeout: duration,
            rise: fc.integer({ min: 1, max: 1000 }),
            fall: fc.integer({ min: 1, max: 1000 }),
            ...(check.startsWith('http') && {
              path: fc
                .string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map(code => String.fromCharCode(code)) })
                .map(rest => `/${rest}`),
            }),
            ...((check === 'tls' || check === 'https') && { serverName: fc.constant('s.test') }),
          },
          { requiredKeys: ['check'] },
        ),
      ),
    },
    { requiredKeys: ['backends'] },
  );
const checks = ['tcp', 'tls', 'https', 'http', 'none'];

const cluster = (index: number) =>
  fc.record(
    {
      name: fc.constant(`c${index}`),
      id: fc
        .string({ unit: fc.constantFrom('a', 'Z', '0', '.', '_', '-'), minLength: 1, maxLength: 20 })
        .map(id => `${id}${index}`),
      allow: fc.oneof(cidrs, fc.constant([])),
      limits: fc.record(
        { connections: fc.nat().map(n => n + 1), perSource: fc.constant(1), newPerSecond: fc.constant(7) },
        { requiredKeys: [] },
      ),
      api: pool(checks).map(given => ({ ...given, hosts: [`api.c${index}.test`] })),
      konnectivity: pool(checks).map(given => ({ ...given, hosts: [`k.c${index}.test`] })),
      apps: fc.record(
        {
          hosts: fc.constant([`*.apps.c${index}.test`, ...(index === 0 ? ['*'] : [])]),
          https: pool(checks),
          http: fc.oneof(fc.constant('redirect'), pool(checks)),
        },
        { requiredKeys: ['hosts', 'https'] },
      ),
      routes: fc.record({
        own: fc.tuple(pool(checks), fc.string({ minLength: 1, maxLength: 20 })).map(([given, alpn]) => ({
          ...given,
          hosts: [`api.c${index}.test`],
          alpn: [alpn],
        })),
      }),
    },
    { requiredKeys: ['name', 'api'] },
  );

const off = fc.oneof(duration, fc.constant('off'));
const file = fc.record(
  {
    listen: fc.record(
      {
        on: fc.constantFrom(':6443', '127.0.0.1:1', '[::1]:65535', 'localhost:8080'),
        agents: cidrs,
        idTlv: fc.constantFrom([0x20], [0x05], [0x20, 0x05, 0xe0]),
        only: fc.subarray(['api', 'own', 'apps-http', 'apps-https']),
      },
      { requiredKeys: ['on'] },
    ),
    timeouts: fc.record(
      {
        hello: duration,
        connect: duration,
        idle: off,
        stalled: off,
        halfClosed: off,
        keepalive: fc.constantFrom('1s', '45s', 'off'),
        drain: duration,
      },
      { requiredKeys: [] },
    ),
    limits: fc.record({ connections: fc.constant(100), perSource: fc.constant(5) }, { requiredKeys: [] }),
    retries: fc.integer({ min: 0, max: 10 }),
    workers: fc.constantFrom('auto', 2),
    log: fc.record({
      level: fc.constantFrom('info', 'silent', 'trace'),
      connections: fc.constantFrom('all', 'refused', 'none'),
    }),
    clusters: fc.tuple(cluster(0), cluster(1), cluster(2)),
  },
  { requiredKeys: ['listen', 'clusters'] },
);

describe('renderHaproxy()', { skip }, () => {
  test('writes what HAProxy 2.6 and 3.0 accept', async () => {
    await using dir = await tempDir();
    const programs = { '2.6': findProgram('haproxy') ?? 'haproxy', '3.0': await haproxyBuild() };
    await fc.assert(
      fc.asyncProperty(file, async ({ listen, ...rest }) => {
        const config = configOf(JSON.stringify({ listen: [listen], ...rest }));
        for (const [version, program] of Object.entries(programs)) {
          const text = renderHaproxy(config, 'causeway.yaml', readHaproxyVersion(version) ?? assert.fail());
          const path = dir.file(`${version}.cfg`);
          await writeFile(path, text);
          const { code, stdout, stderr } = await run(program, ['-c', '-f', path]);
          assert.equal(code, 0, `${stdout}${stderr}\n${text}`);
          assert.doesNotMatch(stderr, /\[WARNING\](?!.*could not resolve)/, text);
        }
      }),
      { numRuns: FILES },
    );
  });

  test('sends a host where our own table would', async () => {
    await using stack = new AsyncDisposableStack();
    const targets: Backend[] = [];
    for (let i = 0; i < 6; i++) targets.push(stack.use(await Backend.start({ name: `t${i}` })));
    const port = await freePort();
    await fc.assert(
      fc.asyncProperty(tables, async ({ claims, only, hosts }) => {
        const config = configOf(tableYaml(port, claims, only, targets));
        const explainer = new Explainer(config.clusters, config.listen);
        const text = renderHaproxy(config, 'causeway.yaml', readHaproxyVersion('2.6') ?? assert.fail());
        await using _ = await startHaproxy({ config: text });
        for (const host of hosts) {
          const { backend } = explainer.explain({ host, protocol: 'tls' });
          const expected = targets.findIndex(target => target.text === backend);
          using client = await connectClient(port);
          client.send(hello(host));
          await client.receivesOrEnds(3);
          const heard = client.received().toString('latin1').trimEnd();
          assert.equal(heard, expected < 0 ? '' : `t${expected}`, `${host}\n${text}`);
        }
      }),
      { numRuns: TABLES },
    );
  });
});

/** Few labels, so that exact hosts, wildcards and questions meet. */
const label = fc.constantFrom('a', 'b', 'api', 'x-1', '_y');
const name = fc.array(label, { minLength: 1, maxLength: 3 }).map(labels => [...labels, 'test'].join('.'));
const pattern = fc.oneof(
  name,
  name.map(suffix => `*.${suffix}`),
  fc.constant('*'),
);
const kinds = ['api', 'konnectivity', 'apps-https', 'own'];

/** Hosts by route: `api` of the first cluster, `konnectivity` of the first, … */
const tables = fc.record({
  claims: fc
    .uniqueArray(fc.tuple(pattern, fc.nat(5)), { selector: ([host]) => host, minLength: 3, maxLength: 14 })
    // `*` is for apps and own routes only.
    .map(all => all.filter(([host, route]) => host !== '*' || route % 3 === 2)),
  only: fc.option(fc.subarray(kinds, { minLength: 1 })),
  hosts: fc.array(
    fc.oneof(
      name,
      name.map(host => host.toUpperCase()),
      name.map(host => `${host}.`),
      fc.constantFrom('', '192.0.2.1', '-a.a.test', 'a b.test', 'a..test', 'test'),
    ),
    { minLength: 15, maxLength: 15 },
  ),
});

function tableYaml(
  port: number,
  claims: readonly (readonly [host: string, route: number])[],
  only: readonly string[] | null,
  targets: readonly Backend[],
): string {
  const route = (index: number) => ({
    hosts: claims.filter(([, claimed]) => claimed === index).map(([host]) => host),
    backends: [targets[index].text],
    health: { check: 'none' },
  });
  const { hosts, ...https } = route(2);
  const clusters = [
    { name: 'one', api: route(0), konnectivity: route(1), apps: { hosts, https } },
    { name: 'two', api: route(3), konnectivity: route(4), routes: { own: route(5) } },
  ];
  return JSON.stringify({ listen: [{ on: `127.0.0.1:${port}`, ...(only !== null && { only }) }], clusters });
}
