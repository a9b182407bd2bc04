import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/config/read-config.ts';
import { hostOf, newHost, numberedHost } from '../routes.ts';
import { renderCauseway } from './causeway.ts';
import { renderHaproxy, renderHaproxyMap } from './haproxy.ts';
import { renderNginx, renderNginxMap } from './nginx.ts';

const ports = { answer: 1001, echo: 1002, sink: 1003, source: 1004, tls: 1005, web: 1006 };
const routes = { hosts: 2500, added: [newHost(7).host], ports };
const setup = { routes, workers: 3, cores: [0], connections: 9000 };

test('renderCauseway() returns a valid file with every host, at most a thousand per cluster', () => {
  const read = readConfig(renderCauseway(routes), 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  const all = read.config.clusters.flatMap(cluster => cluster.routes);
  assert.equal(all.flatMap(({ hosts }) => hosts).length, 2505);
  assert.equal(Math.max(...all.map(({ hosts }) => hosts.length)), 1000);
  const added = all.find(({ hosts }) => hosts.includes(newHost(7).host));
  assert.deepEqual(
    added?.pool.backends.map(({ text }) => text),
    ['127.0.0.1:1001'],
  );
});

test('renderCauseway() serves HTTP on request', () => {
  const read = readConfig(renderCauseway({ ...routes, web: true }), 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  const [web, ...others] = read.config.clusters
    .flatMap(cluster => cluster.routes)
    .filter(({ kind }) => kind === 'apps-http');
  assert.deepEqual([web.hosts, web.pool.backends[0].text], [[hostOf('web')], '127.0.0.1:1006']);
  assert.equal(others.length, 0);
});

test('renderCauseway() stays below the file size limit at 100,000 hosts', () => {
  assert.ok(renderCauseway({ ...routes, hosts: 100_000 }).length < 16 * 2 ** 20);
});

test('renderHaproxy() has the threads, the map and a backend of each kind', () => {
  const file = { ...setup, map: '/m', socket: '/s', port: 4443, webPort: 8080, bufferBytes: undefined };
  const text = renderHaproxy(file);
  assert.match(text, /^ {2}nbthread 3$/m);
  assert.match(text, /use_backend %\[req\.ssl_sni,lower,map\(\/m\)\]/);
  assert.match(text, /^backend source\n {2}server one 127\.0\.0\.1:1004$/m);
  assert.doesNotMatch(text, /bufsize/);
  assert.doesNotMatch(text, /mode http/);
  const web = renderHaproxy({ ...file, routes: { ...routes, web: true } });
  assert.match(web, /^backend web\n {2}mode http\n {2}http-reuse always\n {2}server one 127\.0\.0\.1:1006$/m);
  assert.match(renderHaproxy({ ...file, bufferBytes: 262_144 }), /^ {2}tune\.bufsize 262144$/m);
});

test('renderHaproxyMap() and renderNginxMap() have a line for each host', () => {
  const lines = renderHaproxyMap(routes).trimEnd().split('\n');
  assert.equal(lines.length, 2505);
  assert.ok(lines.includes(`${numberedHost(2499)} answer`));
  assert.equal(renderNginxMap(routes).trimEnd().split('\n').at(-1), 'new0007.bench.test 127.0.0.1:1001;');
});

test('renderNginx() has room for the connections and the hosts, and loads a dynamic module', () => {
  const file = {
    ...setup,
    directory: '/d',
    map: '/m',
    port: 4443,
    webPort: 8080,
    asRoot: false,
    module: '/stream.so',
  };
  const text = renderNginx(file);
  assert.match(text, /^load_module \/stream\.so;\n/);
  assert.match(text, /worker_connections 18256;/);
  assert.match(text, /map_hash_max_size 5000;/);
  assert.doesNotMatch(renderNginx({ ...file, module: undefined }), /load_module/);
  assert.doesNotMatch(text, /^http/m);
  const web = renderNginx({ ...file, routes: { ...routes, web: true } });
  assert.match(web, /upstream web \{\s+server 127\.0\.0\.1:1006;/);
});
