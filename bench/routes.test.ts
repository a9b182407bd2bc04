import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseClientHello } from '../src/wire/client-hello.ts';
import { benchHello, hostOf, newHost, numberedHost, routeEntries } from './routes.ts';

const ports = { answer: 1, echo: 2, sink: 3, source: 4, tls: 5, web: 6 };

test('benchHello() returns a complete hello for the first numbered host, and the offset of its name', () => {
  const { bytes, nameAt } = benchHello();
  const parsed = parseClientHello(bytes, 0, bytes.length);
  assert.ok(parsed.kind === 'found');
  const { serverName, alpn, postQuantum, end } = parsed.value;
  assert.deepEqual(
    [serverName, alpn, postQuantum, end],
    [numberedHost(0), ['h2', 'http/1.1'], true, bytes.length],
  );
  const name = newHost(42).name;
  Buffer.from(bytes.buffer).write(name, nameAt);
  const again = parseClientHello(bytes, 0, bytes.length);
  assert.ok(again.kind === 'found');
  assert.equal(again.value.serverName, newHost(42).host);
});

test('routeEntries() has every kind of backend, all hosts once, and names of one length', () => {
  const entries = [...routeEntries({ hosts: 100_000, added: [newHost(1).host], ports })];
  assert.equal(entries.length, 100_005);
  assert.equal(new Set(entries.map(([host]) => host)).size, 100_005);
  assert.deepEqual([...new Set(entries.map(([host]) => host.length))], [numberedHost(0).length]);
  const web = [...routeEntries({ hosts: 0, added: [], web: true, ports })];
  assert.deepEqual(web.at(-1), [hostOf('web'), 'web']);
  assert.deepEqual(entries[0], [hostOf('echo'), 'echo']);
  assert.deepEqual(entries.at(-1), ['new0001.bench.test', 'answer']);
});
