import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readConfig } from '../../config/read-config.ts';
import { finishImport } from '../finish-import.ts';
import { importNginx } from './import-nginx.ts';

const SAMPLE = readFileSync(join(import.meta.dirname, '../samples/nginx.conf'), 'utf8');

function run(text: string, files: Record<string, string> = {}) {
  return importNginx([{ name: 'nginx.conf', text }], {
    env: {},
    readFile: path => files[path],
    listFiles: () => Object.keys(files),
  });
}

function imports(text: string, files?: Record<string, string>) {
  const result = run(text, files);
  assert.ok(result.ok, JSON.stringify(result));
  const { yaml, findings } = finishImport(result.imported, 'nginx');
  const read = readConfig(yaml, 'causeway.yaml');
  assert.ok(read.ok, `${JSON.stringify(read)}\n${yaml}`);
  return {
    config: read.config,
    said: findings.map(({ place, kind, text: one }) => `${place.line} ${kind}: ${one}`),
  };
}

test('importNginx() reads maps of server names, upstreams and servers', () => {
  const { config, said } = imports(SAMPLE);
  assert.deepEqual(
    config.clusters.map(({ name, routes }) => [
      name,
      ...routes.map(({ kind, hosts }) => `${kind} ${hosts.join(' ')}`),
    ]),
    [
      ['east', 'api api.east.example.com', 'apps-https *.apps.east.example.com console.east.example.com'],
      [
        'west',
        'api api.west.example.com',
        'apps-https *.apps.west.example.com west.example.org *.west.example.org',
      ],
      ['cluster', 'apps-https *'],
    ],
  );
  assert.equal(config.clusters[0].routes[0].pool.balance, 'least-connections');
  assert.equal(config.timeouts.connectMs, 5000);
  for (const pattern of [
    /^14 warning: .*unanchored/,
    /^32 warning: proxy_timeout 60s cuts watches/,
    /^23 not carried over: server 192\.0\.2\.5:443 is a backup/,
    /^11 warning: .*any number of labels/,
  ])
    assert.ok(
      said.some(line => pattern.test(line)),
      `${pattern}\n${said.join('\n')}`,
    );
});

test('importNginx() reads includes, lists of clients and PROXY headers', () => {
  const server =
    'server { listen 6443 proxy_protocol; ssl_preread on; proxy_pass $up; proxy_protocol on; allow 10.0.0.0/8; deny all; }';
  const { config, said } = imports(`stream { include parts/*.conf; ${server} }`, {
    'parts/a.conf': 'map $ssl_preread_server_name $up { include names; }',
    names: 'api.x.lab 192.0.2.1:6443;',
  });
  const [{ routes }] = config.clusters;
  assert.deepEqual([routes[0].allow, routes[0].proxyProtocol], [['10.0.0.0/8'], 'v1']);
  assert.deepEqual(config.listen[0].balancers, ['0.0.0.0/0', '::/0']);
  assert.ok(said.some(line => /believes a PROXY header from everyone/.test(line)));
});

test('importNginx() says where a text cannot be read', () => {
  const cases: [string, RegExp][] = [
    ['stream { server { listen 443; }', /^1:8: this '\{' is not closed/],
    ['stream {\n  server {\n    listen 443\n  }\n}', /^3:5: 'listen' is not ended by ';'/],
    ['}', /^1:1: this '\}' closes nothing/],
    ['user "x', /^1:6: this double quote is not closed/],
    ['http { }', /^1:1: has no stream/],
    ['a\0', /NUL/],
  ];
  for (const [text, pattern] of cases) {
    const result = run(text);
    assert.ok(!result.ok, text);
    const [{ place, text: fault }] = result.faults;
    assert.match(`${place.line}:${place.column}: ${fault}`, pattern);
  }
});

test('importNginx() never throws, and what it writes can be read', () => {
  const piece = fc.constantFrom(
    'stream {',
    'server {',
    '}',
    'listen 443;',
    'listen [::]:80 udp;',
    'proxy_pass $x;',
    'proxy_pass up;',
    'ssl_preread on;',
    'map $ssl_preread_server_name $x {',
    'hostnames;',
    'default up;',
    '*.a.b up;',
    '~^(a up;',
    'a.b 1.2.3.4:5;',
    'a.* up;',
    'upstream up {',
    'server 192.0.2.1:1;',
    'server unix:/x;',
    'include x;',
    '"',
    '\\',
    '# c\n',
    'deny all;',
    'allow x;',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 25 }), pieces => {
      const text = pieces.join(' ');
      if (run(text, { x: text }).ok) imports(text, { x: text });
    }),
    { numRuns: 2000 },
  );
});
