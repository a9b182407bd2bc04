// What a valid file means, and that no input makes readConfig() throw or report a position outside the file.
// mistakes.test.ts covers the message of every mistake.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Config } from './config.ts';
import { formatMistake, readConfig, readWithPositions } from './read-config.ts';

const everything = `
listen:
  - ":6443"
  - on: "[2001:DB8:0::1]:443"
    balancers: [10.0.0.0/8]
    agents: [0.0.0.0/0, "::/0"]
    idTlv: [0x20, 0x05, 32]
    only: [api, oauth]
admin:
  on: 192.0.2.1:9440
  hosts: [GW.example.com]
  auth: { username: admin, passwordFile: ./admin.password }
  tls: { certFile: ./crt, keyFile: ./key }
identity: { secretFile: ./identity.secret, required: true }
clusters:
  - name: managed1
    id: 0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11
    allow: [0.0.0.0/0, "::/0"]
    limits: { connections: 5000, perSource: off, newPerSecond: 200 }
    identity: required
    api:
      hosts: [API.managed1.example.com., "*.api.example.com"]
      backends: [192.168.125.30:6443, "CP1.lab:6443", "[FD00:0::1]:6443", "[::ffff:192.0.2.9]:6443"]
      balance: least-connections
      health: { check: https, every: 1m, timeout: 500ms, rise: 1, fall: 5, path: /readyz, serverName: api.example.com }
      proxyProtocol: v2
      connect: [Inner.example.com]
      allow: []
    konnectivity: { hosts: [k.example.com], backends: [192.0.2.1:8132] }
    apps:
      hosts: ["*.apps.example.com"]
      https: { backends: [192.0.2.1:443], proxyProtocol: v1, alpn: [h2] }
      http: redirect
    routes:
      oauth: { hosts: [o.example.com], backends: [], alpn: [my-proto] }
tunnel: { on: ":8443", hosts: [t.example.com], certificates: [{ certFile: ./a, keyFile: ./b }] }
timeouts: { hello: 1s, connect: 500ms, idle: 1h, stalled: 10m, halfClosed: off, drainDelay: 5s, drain: 0s, keepalive: off }
retries: 0
limits: { connections: 100000, perSource: 100, pending: 5 }
stateDir: /var/lib/causeway
engine: haproxy
workers: 4
log: { level: debug, format: json, connections: refused }
sources:
  - kamaji: { domain: example.com, expose: annotated, fix: false }
outputs:
  - dnsEndpoint: { zone: clusters.example.com, targets: nodes, ttl: 60s }
lease: { name: causeway, namespace: causeway-system }
statusAnnotation: true
`;

const usual = { everyMs: 5000, timeoutMs: 2000, rise: 2, fall: 3 };
const plain = { connect: [], alpn: [], proxyProtocol: 'none', redirect: false };

function sound(text: string): Config {
  const result = readConfig(text, 'causeway.yaml');
  assert.deepEqual(result, readWithPositions(text, 'causeway.yaml'));
  const reported = result.ok ? [] : result.mistakes.map(mistake => formatMistake('causeway.yaml', mistake));
  assert.deepEqual(reported, []);
  assert.ok(result.ok);
  return result.config;
}

test('readConfig() fills in every default', () => {
  assert.deepEqual(sound('listen: [":6443"]'), {
    listen: [{ on: ':6443', host: '', port: 6443, balancers: [], agents: [], idTlv: [0x20] }],
    admin: { on: { host: '127.0.0.1', port: 9440 }, hosts: [], auth: [] },
    clusters: [],
    timeouts: {
      helloMs: 5000,
      connectMs: 3000,
      stalledMs: 300_000,
      halfClosedMs: 60_000,
      drainDelayMs: 0,
      drainMs: 600_000,
      keepaliveMs: 30_000,
    },
    retries: 3,
    limits: { pending: 10_000, pendingPerSource: 1000 },
    engine: 'auto',
    workers: 'auto',
    log: { level: 'info', format: 'auto', connections: 'all' },
    sources: [],
    outputs: [],
  });
});

test('readConfig() reads every key and normalizes names and addresses', () => {
  assert.deepEqual(sound(everything), {
    listen: [
      { on: ':6443', host: '', port: 6443, balancers: [], agents: [], idTlv: [32] },
      {
        on: '[2001:DB8:0::1]:443',
        host: '2001:db8::1',
        port: 443,
        balancers: ['10.0.0.0/8'],
        agents: ['0.0.0.0/0', '::/0'],
        idTlv: [32, 5],
        only: ['api', 'oauth'],
      },
    ],
    admin: {
      on: { host: '192.0.2.1', port: 9440 },
      hosts: ['gw.example.com'],
      auth: [{ username: 'admin', passwordFile: './admin.password', role: 'admin' }],
      tls: { certFile: './crt', keyFile: './key' },
    },
    identity: { secretFile: './identity.secret', required: true },
    clusters: [
      {
        name: 'managed1',
        id: '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11',
        origin: { source: 'file' },
        allow: ['0.0.0.0/0', '::/0'],
        limits: { connections: 5000, newPerSecond: 200 },
        identityRequired: true,
        routes: [
          {
            kind: 'api',
            hosts: ['api.managed1.example.com', '*.api.example.com'],
            connect: ['inner.example.com'],
            alpn: [],
            allow: [],
            proxyProtocol: 'v2',
            redirect: false,
            pool: {
              backends: [
                { text: '192.168.125.30:6443', host: '192.168.125.30', port: 6443 },
                { text: 'cp1.lab:6443', host: 'cp1.lab', port: 6443 },
                { text: '[fd00::1]:6443', host: 'fd00::1', port: 6443 },
                { text: '192.0.2.9:6443', host: '192.0.2.9', port: 6443 },
              ],
              balance: 'least-connections',
              health: {
                check: 'https',
                everyMs: 60_000,
                timeoutMs: 500,
                rise: 1,
                fall: 5,
                path: '/readyz',
                serverName: 'api.example.com',
              },
            },
          },
          {
            ...plain,
            kind: 'konnectivity',
            hosts: ['k.example.com'],
            pool: {
              backends: [{ text: '192.0.2.1:8132', host: '192.0.2.1', port: 8132 }],
              balance: 'round-robin',
              health: { check: 'tcp', ...usual },
            },
          },
          {
            ...plain,
            kind: 'apps-https',
            hosts: ['*.apps.example.com'],
            alpn: ['h2'],
            proxyProtocol: 'v1',
            pool: {
              backends: [{ text: '192.0.2.1:443', host: '192.0.2.1', port: 443 }],
              balance: 'source',
              health: { check: 'tls', ...usual },
            },
          },
          {
            ...plain,
            kind: 'apps-http',
            hosts: ['*.apps.example.com'],
            redirect: true,
            pool: { backends: [], balance: 'host', health: { check: 'http', ...usual } },
          },
          {
            ...plain,
            kind: 'oauth',
            hosts: ['o.example.com'],
            alpn: ['my-proto'],
            pool: { backends: [], balance: 'source', health: { check: 'tcp', ...usual } },
          },
        ],
      },
    ],
    tunnel: {
      on: { host: '', port: 8443 },
      hosts: ['t.example.com'],
      certificates: [{ certFile: './a', keyFile: './b' }],
    },
    timeouts: {
      helloMs: 1000,
      connectMs: 500,
      idleMs: 3_600_000,
      stalledMs: 600_000,
      drainDelayMs: 5000,
      drainMs: 0,
    },
    retries: 0,
    limits: { connections: 100_000, perSource: 100, pending: 5, pendingPerSource: 1 },
    stateDir: '/var/lib/causeway',
    engine: 'haproxy',
    workers: 4,
    log: { level: 'debug', format: 'json', connections: 'refused' },
    sources: [
      {
        kind: 'kamaji',
        name: 'kamaji',
        options: { domain: 'example.com', expose: 'annotated', fix: false, via: 'endpoints' },
      },
    ],
    outputs: [
      {
        kind: 'dnsEndpoint',
        name: 'dnsEndpoint',
        options: { zone: 'clusters.example.com', targets: 'nodes', addresses: [], ttlMs: 60_000 },
      },
    ],
    lease: { name: 'causeway', namespace: 'causeway-system' },
    statusAnnotation: true,
  });
});

test('readConfig() returns plain data that can be sent to another thread', () => {
  const config = sound(everything);
  assert.deepEqual(structuredClone(config), config);
});

test('readConfig() accepts `on: "off"` and JSON', () => {
  assert.equal(sound('{"listen":[":6443"],"admin":{"on":"off"}}').admin.on, 'off');
});

test('readConfig() accepts aliases for whole values', () => {
  const { listen } = sound(`
listen:
  - { on: ":6443", balancers: &lb [10.0.0.0/8], agents: *lb }
  - { on: ":443", balancers: *lb }
`);
  assert.deepEqual(
    listen.map(({ balancers, agents }) => [balancers, agents]),
    [
      [['10.0.0.0/8'], ['10.0.0.0/8']],
      [['10.0.0.0/8'], []],
    ],
  );
});

test('readConfig() reports a mistake behind an alias at the position of the value', () => {
  const result = readConfig('listen:\n  - &a { on: 6443 }\n  - *a\n', 'causeway.yaml');
  assert.ok(!result.ok);
  assert.deepEqual(
    result.mistakes.map(({ line, column, path }) => [line, column, path]),
    [
      [2, 14, 'listen[0].on'],
      [2, 14, 'listen[1].on'],
    ],
  );
});

test('readConfig() refuses aliases that expand without bound', () => {
  let text = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n';
  for (let i = 1; i < 30; i++) text += `a${i}: &a${i} [${`*a${i - 1}, `.repeat(10)}]\n`;
  const result = readConfig(`${text}listen: *a29\n`, 'causeway.yaml');
  assert.ok(!result.ok);
  assert.ok(
    result.mistakes.some(mistake => mistake.text.startsWith('aliases may expand to at most 1000000 values')),
  );
});

test('readConfig() accepts an aliased allow list of 100 entries in 2,000 clusters', () => {
  const allow = Array.from({ length: 100 }, (_, i) => `10.0.${i}.0/24`).join(', ');
  const first = `listen: [":6443"]\nclusters:\n  - { name: first, allow: &office [${allow}] }\n`;
  const others = Array.from({ length: 2000 }, (_, i) => `  - { name: c${i}, allow: *office }\n`);
  assert.equal(sound(first + others.join('')).clusters.at(-1)?.allow?.length, 100);
});

test('readConfig() refuses deep nesting, with one message', () => {
  const texts = [
    '['.repeat(100_000),
    '['.repeat(200) + ']'.repeat(200),
    `${'- '.repeat(20_000)}x`,
    deepMap(200),
  ];
  for (const text of texts) {
    const result = readConfig(text, 'causeway.yaml');
    assert.ok(!result.ok);
    const deep = result.mistakes.filter(mistake => mistake.text === 'is nested too deeply');
    assert.equal(deep.length, 1, text.slice(0, 10));
  }
});

function deepMap(levels: number): string {
  return Array.from({ length: levels }, (_, i) => `${' '.repeat(i)}a:\n`).join('');
}

test('readConfig() counts columns without the byte order mark and handles CRLF', () => {
  const result = readConfig('\ufefflisten: [6443]\r\nretries: x\r\n', 'causeway.yaml');
  assert.ok(!result.ok);
  assert.deepEqual(
    result.mistakes.map(({ line, column }) => [line, column]),
    [
      [1, 10],
      [2, 10],
    ],
  );
});

test('formatMistake() puts file, line, column, path and text in one line', () => {
  const mistake = { line: 12, column: 5, path: 'clusters[0].api.hosts[0]', text: 'must be …' };
  assert.equal(
    formatMistake('causeway.yaml', mistake),
    'causeway.yaml:12:5: clusters[0].api.hosts[0]: must be …',
  );
  assert.equal(formatMistake('-', { ...mistake, path: '' }), '-:12:5: must be …');
});

/** Asserts that reading does not throw, and that each mistake is one line with a position inside the file. */
function holds(text: string): void {
  const result = readConfig(text, 'causeway.yaml');
  const lines = text.split('\n');
  const reported = result.ok ? result.warnings : result.mistakes;
  if (!result.ok) assert.notEqual(reported.length, 0);
  for (const mistake of reported) {
    assert.ok(mistake.line >= 1 && mistake.line <= lines.length, formatMistake('', mistake));
    const width = lines[mistake.line - 1].length;
    assert.ok(mistake.column >= 1 && mistake.column <= width + 1, formatMistake('', mistake));
    assert.doesNotMatch(formatMistake('causeway.yaml', mistake), /\n|undefined|\[object|Invalid input/);
  }
}

test('readConfig() never throws on any JSON document', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), value => holds(JSON.stringify(value, null, 1))),
    { numRuns: 200 },
  );
});

test('readConfig() never throws on documents with known keys and any values', () => {
  const keys = [
    'listen',
    'admin',
    'clusters',
    'timeouts',
    'limits',
    'log',
    'sources',
    'tunnel',
    'identity',
    'name',
  ];
  const deeper = [
    'id',
    'api',
    'apps',
    'routes',
    'hosts',
    'backends',
    'https',
    'http',
    'connect',
    'alpn',
    'health',
    'on',
  ];
  const { value } = fc.letrec(tie => ({
    value: fc.oneof({ maxDepth: 5 }, scalar, fc.array(tie('value'), { maxLength: 3 }), tie('map')),
    map: fc.dictionary(fc.constantFrom(...keys, ...deeper, '__proto__', 'constructor'), tie('value'), {
      maxKeys: 6,
    }),
  }));
  fc.assert(
    fc.property(value, document => holds(JSON.stringify(document))),
    { numRuns: 500 },
  );
});

const scalar = fc.oneof(
  fc.constantFrom(
    null,
    true,
    0,
    -1,
    6443,
    1e300,
    '',
    'off',
    'a.b',
    '*.a.b',
    ':6443',
    'a:1',
    '10.0.0.0/8',
    'redirect',
  ),
  fc.string(),
);

test('readConfig() never throws on any text', () => {
  const words = [
    'listen:',
    ' ',
    '\n',
    '  - ',
    '- ',
    '[',
    ']',
    '{',
    '}',
    ': ',
    '"',
    "'",
    '&a ',
    '*a',
    '!t ',
    '|',
    '>',
    '#',
  ];
  const more = [
    '---\n',
    '...\n',
    '%YAML 1.1\n',
    '\t',
    ',',
    '? ',
    '<<: ',
    '\r\n',
    '\u2028',
    '\ufeff',
    '\0',
    'é',
    '💥',
    'x',
  ];
  const soup = fc.array(fc.constantFrom(...words, ...more), { maxLength: 30 }).map(parts => parts.join(''));
  fc.assert(fc.property(fc.oneof(soup, fc.string({ unit: 'binary-ascii' })), holds), { numRuns: 1000 });
});

test('readConfig() never throws on a valid file with text removed, repeated or inserted', () => {
  const at = fc.nat(everything.length);
  const inserted = fc.constantFrom(
    '',
    ' ',
    '\n',
    '[',
    '"',
    '{',
    ': ',
    '- ',
    '*',
    '&x ',
    '\t',
    '#',
    'off',
    '0',
    '\u0007',
  );
  fc.assert(
    fc.property(at, fc.nat(40), fc.nat(40), inserted, (from, length, repeated, text) => {
      const again = everything.slice(from, from + repeated);
      holds(everything.slice(0, from) + again + text + everything.slice(from + length));
    }),
    { numRuns: 300 },
  );
});

test('readConfig() names the second source of a kind, and fills in what is left out', () => {
  const { sources, outputs } = sound(
    `listen: [{ on: ":443" }]\nsources: [{ kamaji: {} }, { services: { domains: [x.lab] } }, { kamaji: {} }, { hypershift: {} }]\noutputs: [{ ingress: {} }, { ingressRouteTCP: {} }, { ingress: {} }]`,
  );
  assert.deepEqual(
    sources.map(({ name }) => name),
    ['kamaji', 'services', 'kamaji-2', 'hypershift'],
  );
  assert.deepEqual(sources[0].options, { via: 'endpoints', expose: 'annotated', fix: false });
  assert.deepEqual(sources[3].options, { via: 'clusterIP' });
  assert.deepEqual(
    outputs.map(({ name, options }) => [name, options]),
    [
      ['ingress', { flavor: 'haproxy', annotations: {} }],
      ['ingressRouteTCP', { entryPoints: ['websecure'] }],
      ['ingress-2', { flavor: 'haproxy', annotations: {} }],
    ],
  );
});
