import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../config/read-config.ts';
import { type HaproxyVersion, readHaproxyVersion } from './haproxy-version.ts';
import { notRendered, unsupportedByHaproxy } from './unsupported.ts';

function configOf(yaml: string) {
  const read = readConfig(yaml, 'causeway.yaml');
  if (!read.ok) assert.fail(JSON.stringify(read.mistakes));
  return read.config;
}

function paths(yaml: string, isRefused: boolean, version?: HaproxyVersion): readonly string[] {
  return unsupportedByHaproxy(configOf(yaml), version)
    .filter(each => each.isRefused === isRefused && each.path !== 'engine')
    .map(({ path }) => path);
}

const API = 'api: { hosts: [a.test], backends: ["192.0.2.1:1"] }';

const REFUSED: readonly [path: string, yaml: string][] = [
  ['identity', `listen: [":1"]\nidentity: { secretFile: ./s }\nclusters: [{ name: a, ${API} }]`],
  [
    'clusters[0].identity',
    `listen: [":1"]\nidentity: { secretFile: ./s }\nclusters: [{ name: a, id: x, identity: required, ${API} }]`,
  ],
  [
    'tunnel',
    'listen: [":1"]\nidentity: { secretFile: ./s }\ntunnel: { hosts: [t.test], certificates: [{ certFile: c, keyFile: k }] }\nclusters: []',
  ],
  [
    'clusters[0].apps.https.connect',
    'listen: [":1"]\nclusters: [{ name: a, apps: { hosts: [b.test], https: { backends: [], connect: [c.svc] } } }]',
  ],
];

for (const [path, yaml] of REFUSED) {
  test(`unsupportedByHaproxy() refuses ${path}`, () => {
    assert.ok(paths(yaml, true).includes(path), `${paths(yaml, true)}`);
  });
}

test('unsupportedByHaproxy() refuses nothing that HAProxy can do', () => {
  const yaml = `listen: [{ on: ":1", only: [api] }, { on: ":2", agents: [10.0.0.0/8] }]
limits: { connections: 5, perSource: 5 }
clusters:
  - name: a
    id: x
    allow: []
    limits: { connections: 1, perSource: 1, newPerSecond: 1 }
    ${API}
    apps: { hosts: ["*"], https: ["[::1]:1"], http: redirect }
    routes: { own: { hosts: [a.test], alpn: [h2], backends: [], proxyProtocol: v1 } }`;
  assert.deepEqual(paths(yaml, true), []);
  assert.deepEqual(paths(yaml, false), ['listen[1].agents']);
});

test('unsupportedByHaproxy() refuses two PROXY headers only without the script of the engine', () => {
  const yaml = 'listen: [{ on: ":1", balancers: [10.0.0.0/8], agents: ["::/0"] }]\nclusters: []';
  assert.deepEqual(paths(yaml, true), []);
  assert.deepEqual(paths(yaml, true, readHaproxyVersion('3.0')), ['listen[0].agents']);
});

test('unsupportedByHaproxy() knows which TLVs a version reads', () => {
  const old = readHaproxyVersion('2.6');
  const agents = (idTlv: string) => `listen: [{ on: ":1", agents: ["::/0"]${idTlv} }]\nclusters: []`;
  assert.deepEqual(paths(agents(''), true, old), ['listen[0].idTlv']);
  assert.deepEqual(paths(agents(', idTlv: [0x05]'), true, old), []);
  assert.deepEqual(paths(agents(', idTlv: [0x20, 0x05]'), false, old), [
    'listen[0].agents',
    'listen[0].idTlv',
  ]);
  assert.deepEqual(paths(agents(''), true, readHaproxyVersion('2.9')), []);
});

test('unsupportedByHaproxy() says which limits have no counterpart', () => {
  const limits = (text: string) => `listen: [":1"]\nlimits: ${text}\nclusters: []`;
  assert.deepEqual(paths(limits('{ connections: 9 }'), false), []);
  assert.deepEqual(paths(limits('{ pending: 5 }'), false), ['limits.pending']);
  assert.deepEqual(paths(limits('{ pendingPerSource: 5 }'), false), ['limits.pendingPerSource']);
});

test('notRendered() refuses port 0, and names sources', () => {
  const config = configOf('listen: [":0"]\nsources: [{ kamaji: {} }]\nclusters: []');
  const version = readHaproxyVersion('3.0') ?? assert.fail();
  const found = notRendered(config, version).filter(({ path }) => path !== 'engine');
  assert.deepEqual(
    found.map(({ path, isRefused }) => [path, isRefused]),
    [
      ['listen[0]', true],
      ['sources', false],
    ],
  );
});

test('unsupportedByHaproxy() says what differs in every file, and of HTTP where there is HTTP', () => {
  const said = (yaml: string) =>
    unsupportedByHaproxy(configOf(yaml))
      .filter(({ path }) => path === 'engine')
      .map(({ text }) => text);
  const plain = said(`listen: [":1"]\nclusters: [{ name: a, ${API} }]`);
  assert.deepEqual(
    plain.map(text => /alert|ClientHello|no longer allowed/.exec(text)?.[0]),
    ['alert', 'ClientHello', 'no longer allowed'],
  );
  const http = said(
    `listen: [":1"]\nclusters: [{ name: a, apps: { hosts: [b.test], http: ["192.0.2.1:1"] } }]`,
  );
  assert.match(http.at(-1) ?? '', /cleartext HTTP with its own parser/);
});
