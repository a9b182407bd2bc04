// `causeway import nginx`: the original in a real nginx and its import in our gateway lead each connection to the same
// backend, except where a finding says otherwise.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { finishImport } from '../../src/import/finish-import.ts';
import { importNginx } from '../../src/import/nginx/import-nginx.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startNginx } from '../../testbed/start-nginx.ts';
import { bothWays } from './both-ways.ts';

const FILE = join(import.meta.dirname, '../../src/import/samples/nginx.conf');
const SERVERS = {
  '192.0.2.1:6443': 'east_api',
  '192.0.2.2:6443': 'east_api',
  '192.0.2.3:6443': 'west_api',
  '192.0.2.4:443': 'east_apps',
  '192.0.2.5:443': 'east_apps',
  '192.0.2.6:443': 'west_apps',
  '192.0.2.9:443': 'rest',
};
const HOSTS = [
  'api.east.example.com',
  'API.West.Example.com',
  'x.apps.east.example.com',
  'a.b.apps.east.example.com',
  'apps.east.example.com',
  'west.example.org',
  'x.west.example.org',
  'a.b.west.example.org',
  'x.apps.west.example.com',
  'a.b.apps.west.example.com',
  'console.east.example.com',
  'console.east.example.com.evil.example',
  'consolexeast.example.com',
  'api.east.example.com.evil.example',
  'other.example',
  '',
];

test('causeway import nginx: each connection reaches the same backend', {
  skip: missingPrograms('nginx'),
}, async () => {
  const text = readFileSync(FILE, 'utf8');
  const surroundings = { env: {}, readFile: () => undefined, listFiles: () => [] };
  const result = importNginx([{ name: 'nginx.conf', text }], surroundings);
  assert.ok(result.ok);
  const { yaml, findings } = finishImport(result.imported, 'nginx');
  const stream = text.slice(text.indexOf('stream {') + 'stream {'.length, text.lastIndexOf('}'));
  const original = {
    text: stream.replace(/^ *listen \[::\].*\n/m, ''),
    servers: SERVERS,
    ports: [443],
    listenAt: (config: string, port: number, local: number) =>
      config.replace(`listen ${port};`, `listen 127.0.0.1:${local};`),
  };
  await using both = await bothWays(original, yaml, stream => startNginx({ stream }));
  for (const host of HOSTS) {
    const { original: theirs, imported: ours } = await both.tls(443, host);
    const isAnnounced = findings.some(finding => finding.differsFor?.(host.toLowerCase()) === true);
    assert.equal(theirs === ours, !isAnnounced, `${host}: nginx ${theirs}, causeway ${ours}`);
  }
});
