// `causeway import traefik`: the original in a real Traefik and its import in our gateway lead each connection to the same
// backend.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { finishImport } from '../../src/import/finish-import.ts';
import { importTraefik } from '../../src/import/traefik/import-traefik.ts';
import { startTraefik } from '../../testbed/start-traefik.ts';
import { bothWays } from './both-ways.ts';

const FILE = join(import.meta.dirname, '../../src/import/samples/traefik-file.yaml');
const SERVERS = {
  '192.0.2.1:6443': 'east-api',
  '192.0.2.2:6443': 'east-api',
  '192.0.2.3:6443': 'west-api',
  '192.0.2.4:443': 'east-apps',
  '192.0.2.4:80': 'east-web',
};
const HOSTS = [
  'api.east.example.com',
  'API.East.example.com',
  'k8s.east.example.com',
  'x.apps.east.example.com',
  'a.b.apps.east.example.com',
  'x.apps.east.example.com.evil.example',
  'apps.east.example.com',
  // Its clients are elsewhere.
  'api.west.example.com',
  'other.example',
];

test('causeway import traefik: each connection reaches the same backend', async () => {
  const text = readFileSync(FILE, 'utf8');
  const surroundings = { env: {}, readFile: () => undefined, listFiles: () => [] };
  const result = importTraefik([{ name: 'traefik.yaml', text }], surroundings);
  assert.ok(result.ok);
  const { yaml } = finishImport(result.imported, 'traefik');
  const addresses = new Map<number, number>();
  const original = {
    // The file provider takes no static configuration. Its router without passthrough would need a certificate.
    text: text.replace(/^entryPoints:\n(?: .*\n)*/m, '').replace(/^ {4}opened:\n(?: {6}.*\n)*/m, ''),
    servers: SERVERS,
    ports: [443, 80],
    listenAt: (config: string, port: number, local: number) => {
      addresses.set(port, local);
      return config;
    },
  };
  await using both = await bothWays(original, yaml, dynamic =>
    startTraefik({
      routes: {},
      dynamic: { text: dynamic, routers: 3 },
      flags: [
        `--entryPoints.websecure.address=127.0.0.1:${addresses.get(443)}`,
        `--entryPoints.web.address=127.0.0.1:${addresses.get(80)}`,
      ],
    }),
  );
  for (const host of HOSTS) {
    const tls = await both.tls(443, host);
    assert.equal(tls.original, tls.imported, `TLS ${host}`);
    const http = await both.http(80, host);
    assert.equal(http.original, http.imported, `HTTP ${host}`);
  }
  assert.equal((await both.tls(443, 'x.apps.east.example.com')).imported, 'east-apps');
  assert.equal((await both.http(80, 'x.apps.east.example.com')).imported, 'east-web');
});
