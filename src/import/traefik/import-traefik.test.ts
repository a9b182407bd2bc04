import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readConfig } from '../../config/read-config.ts';
import { finishImport } from '../finish-import.ts';
import { importTraefik } from './import-traefik.ts';
import { parseRule } from './parse-rule.ts';

function sample(name: string): string {
  return readFileSync(join(import.meta.dirname, '../samples', name), 'utf8');
}

function run(...texts: readonly string[]) {
  const surroundings = { env: {}, readFile: () => undefined, listFiles: () => [] };
  return importTraefik(
    texts.map((text, i) => ({ name: `${i}.yaml`, text })),
    surroundings,
  );
}

function imports(...texts: readonly string[]) {
  const result = run(...texts);
  assert.ok(result.ok, JSON.stringify(result));
  const { yaml, findings } = finishImport(result.imported, 'traefik');
  const read = readConfig(yaml, 'causeway.yaml');
  assert.ok(read.ok, `${JSON.stringify(read)}\n${yaml}`);
  const clusters = read.config.clusters.map(({ name, routes }) => [
    name,
    ...routes.map(
      ({ kind, hosts, pool }) =>
        `${kind} ${hosts.join(' ')} > ${pool.backends.map(one => one.text).join(' ')}`,
    ),
  ]);
  return {
    ...read,
    clusters,
    said: findings.map(({ place, kind, text }) => `${place.line} ${kind}: ${text}`),
  };
}

test('importTraefik() reads routers of a file provider', () => {
  const { config, clusters, said } = imports(sample('traefik-file.yaml'));
  assert.deepEqual(clusters, [
    [
      'east',
      'api api.east.example.com k8s.east.example.com > 192.0.2.1:6443 192.0.2.2:6443',
      'apps-https *.apps.east.example.com > 192.0.2.4:443',
      'apps-http *.apps.east.example.com > 192.0.2.4:80',
    ],
    ['west', 'api api.west.example.com > 192.0.2.3:6443'],
  ]);
  assert.deepEqual(config.listen[0].balancers, ['10.0.0.0/8']);
  assert.deepEqual(config.clusters[1].routes[0].allow, ['192.0.2.0/24']);
  assert.equal(config.clusters[0].routes[1].proxyProtocol, 'v2');
  assert.ok(said.some(line => line.startsWith("22 not carried over: router 'opened': it opens TLS")));
});

test('importTraefik() reads IngressRouteTCP objects, also of a List', () => {
  const { config, clusters, said } = imports(sample('ingress-routes.yaml'));
  assert.deepEqual(clusters, [
    [
      'tenant-01',
      'api tenant-01.k8s.example.com > tenant-01.tenants.svc.cluster.local:6443',
      'konnectivity tenant-01.konnectivity.example.com > tenant-01.tenants.svc.cluster.local:8132',
    ],
    ['tenant-02', 'api tenant-02.k8s.example.com > tenant-02.tenants.svc.cluster.local:6443'],
  ]);
  assert.deepEqual(config.clusters[0].routes[1].allow, ['10.64.0.0/16']);
  assert.ok(said.some(line => /entry point 'websecure' is not in these files: :443 is assumed/.test(line)));
});

test('importTraefik() takes the longer rule first, and knows one that never applies', () => {
  const router = (rule: string, service: string) =>
    `{ rule: "${rule}", service: ${service}, tls: { passthrough: true } }`;
  const { clusters, said } = imports(`tcp:
  routers:
    one: ${router('HostSNI(`api.x.lab`)', 'a')}
    two: ${router('HostSNI(`api.x.lab`) || HostSNI(`oauth.x.lab`)', 'b')}
    rest: ${router('HostSNI(`*`)', 'c')}
  services:
    a: { loadBalancer: { servers: [{ address: "192.0.2.1:6443" }] } }
    b: { loadBalancer: { servers: [{ address: "192.0.2.2:6443" }] } }
    c: { loadBalancer: { servers: [{ address: "192.0.2.3:443" }] } }
`);
  assert.deepEqual(
    clusters.flatMap(([, ...routes]) => routes.map(route => route.replace(/^\S+ /, ''))).toSorted(),
    ['* > 192.0.2.3:443', 'api.x.lab oauth.x.lab > 192.0.2.2:6443'],
  );
  assert.ok(
    said.some(line => /^3 warning: .*shadowed/.test(line)),
    said.join('\n'),
  );
});

test('importTraefik() says where a text cannot be read', () => {
  const cases: [string, RegExp][] = [
    ['tcp:\n  routers: {', /^\d:\d+: is not YAML/],
    ['- a', /^1:1: must be a map/],
    ['a: 1', /^1:1: has no routers/],
    ['', /^1:1: has no routers/],
  ];
  for (const [text, pattern] of cases) {
    const result = run(text);
    assert.ok(!result.ok, text);
    const [{ place, text: fault }] = result.faults;
    assert.match(`${place.line}:${place.column}: ${fault}`, pattern);
  }
});

test('parseRule() reads alternatives, and never throws', () => {
  const names = (rule: string) =>
    parseRule(rule)?.map(all => all.map(({ name, args }) => `${name} ${args.join(' ')}`));
  assert.deepEqual(names('(HostSNI(`a`) || HostSNI("b", `c`)) && ClientIP(`10.0.0.0/8`)'), [
    ['HostSNI a', 'ClientIP 10.0.0.0/8'],
    ['HostSNI b c', 'ClientIP 10.0.0.0/8'],
  ]);
  assert.equal(parseRule('HostSNI(`a`'), undefined);
  assert.equal(parseRule('!(A(`x`) || B(`y`))'), undefined);
  const piece = fc.constantFrom('HostSNI', '(', ')', '`a`', ',', '&&', '||', '!', '"', ' ', 'x');
  fc.assert(
    fc.property(fc.string({ unit: piece, maxLength: 30 }), text => {
      parseRule(text);
    }),
  );
});

test('importTraefik() never throws, and what it writes can be read', () => {
  const rule = fc.constantFrom(
    'HostSNI(`a.b`)',
    'HostSNI(`*`)',
    'HostSNI(`A.B.`)',
    'HostSNIRegexp(`(`)',
    'Host(`1.2.3.4`)',
    '!HostSNI(`a`)',
    '',
  );
  const service = fc.constantFrom<unknown>(
    { loadBalancer: { servers: [{ address: '192.0.2.1:1', url: 'http://192.0.2.1' }] } },
    {},
    null,
    [1],
    {
      loadBalancer: { servers: [null, { address: 'x' }, { url: 'https://x' }] },
    },
  );
  const router = fc.record({
    rule,
    service: fc.constantFrom('s', 't', '__proto__'),
    entryPoints: fc.constantFrom<unknown>(['web'], ['websecure', 'x99999'], 'no', []),
    tls: fc.constantFrom<unknown>({ passthrough: true }, {}, null),
  });
  const part = fc.record({
    routers: fc.dictionary(fc.constantFrom('r', 'q', 'p'), router),
    services: fc.record({ s: service, t: service }),
  });
  fc.assert(
    fc.property(fc.record({ tcp: part, http: part }), value => {
      const text = JSON.stringify(value);
      if (run(text).ok) imports(text);
    }),
    { numRuns: 500 },
  );
});
