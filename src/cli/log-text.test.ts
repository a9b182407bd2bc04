import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textLine } from './log-text.ts';

const connection = {
  level: 'info',
  time: '2026-01-02T03:04:05.678Z',
  msg: 'connection',
  client: '192.0.2.1:50000',
  host: 'api.a.lab',
  clusterId: null,
  cluster: 'a',
  route: 'api',
  backend: '192.0.2.9:6443',
  reason: 'done',
  in: 517,
  out: 3 * 1024 * 1024,
  ms: 12.3,
};

test('textLine() summarises a connection in one line', () => {
  assert.equal(
    textLine(JSON.stringify(connection), false),
    '03:04:05.678 done             192.0.2.1:50000 → a/api 192.0.2.9:6443 (api.a.lab) in 517 B out 3.0 MiB 12.3 ms\n',
  );
});

test('textLine() shows the requested host when there is no route', () => {
  const refused = { ...connection, cluster: null, route: null, backend: null, reason: 'unknown-host' };
  assert.match(
    textLine(JSON.stringify(refused), false),
    /unknown-host {5}192\.0\.2\.1:50000 → api\.a\.lab in/,
  );
});

test('textLine() shows why a dial failed', () => {
  const failed = { ...connection, level: 'warn', reason: 'connect-failed', error: 'refused', ms: 3891.1 };
  assert.equal(
    textLine(JSON.stringify(failed), false),
    '03:04:05.678 connect-failed   192.0.2.1:50000 → a/api 192.0.2.9:6443 (api.a.lab) refused in 517 B out 3.0 MiB 3.9 s\n',
  );
});

test('textLine() formats a request in the same columns as a connection', () => {
  const { level, time, client, host, cluster, backend } = connection;
  const request = { level, time, msg: 'request', client, host, cluster, route: 'apps-http', backend };
  assert.equal(
    textLine(JSON.stringify({ ...request, method: 'GET', status: 200, ms: 3891.1 }), false),
    '03:04:05.678 200 GET          192.0.2.1:50000 → a/apps-http 192.0.2.9:6443 (api.a.lab) 3.9 s\n',
  );
  const unread = { ...request, host: null, cluster: null, route: null, backend: null, method: null };
  assert.equal(
    textLine(JSON.stringify({ ...unread, status: 400, ms: 0.3 }), false),
    '03:04:05.678 400              192.0.2.1:50000 → ? 0.3 ms\n',
  );
});

test('textLine() formats a health change in the same columns', () => {
  const { time } = connection;
  const health = { level: 'warn', time, msg: 'health', cluster: 'a', route: 'api', backend: 'cp1.lab:6443' };
  for (const [up, why, text] of [
    [false, 'connection refused', 'down             a/api cp1.lab:6443 connection refused'],
    [true, 'TLS handshake done', 'up               a/api cp1.lab:6443 TLS handshake done'],
    [null, 'it is not checked any more', 'unknown          a/api cp1.lab:6443 it is not checked any more'],
  ] as const) {
    assert.equal(textLine(JSON.stringify({ ...health, up, why }), false), `03:04:05.678 ${text}\n`);
  }
});

test('textLine() puts each mistake of a refused file on its own line', () => {
  const { time } = connection;
  const msg = 'file refused; keeping the previous configuration';
  const line = { level: 'error', time, error: 'a.yaml:1:2: no\na.yaml:3:4: nor \x1bthis', msg };
  const below = '             ';
  assert.equal(
    textLine(JSON.stringify(line), false),
    `03:04:05.678 error ${msg}\n${below}a.yaml:1:2: no\n${below}a.yaml:3:4: nor \\u001bthis\n`,
  );
});

test('textLine() formats durations for people', () => {
  const { time } = connection;
  const line = { level: 'info', time, connections: 3, drainDelayMs: 0, drainMs: 600_000, msg: 'draining' };
  assert.equal(
    textLine(JSON.stringify(line), false),
    '03:04:05.678 draining connections=3 drainDelay=0 ms drain=10 min\n',
  );
});

test('textLine() shows the fields, and the level unless it is info', () => {
  const line = { level: 'warn', time: '2026-01-02T03:04:05.678Z', msg: 'dropped', count: 7 };
  assert.equal(textLine(JSON.stringify(line), false), '03:04:05.678 warn dropped count=7\n');
});

test('textLine() colours only when asked to', () => {
  const escape = '\x1b[';
  assert.ok(!textLine(JSON.stringify(connection), false).includes(escape));
  assert.ok(textLine(JSON.stringify(connection), true).includes(escape));
});
