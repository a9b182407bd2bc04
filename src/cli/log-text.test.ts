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

test('textLine() puts what matters of a connection in one line', () => {
  assert.equal(
    textLine(JSON.stringify(connection), false),
    '03:04:05.678 done             192.0.2.1:50000 → a/api 192.0.2.9:6443 (api.a.lab) in 517 B out 3.0 MiB 12.3 ms\n',
  );
});

test('textLine() shows the host that was asked for when there is no route', () => {
  const refused = { ...connection, cluster: null, route: null, backend: null, reason: 'unknown-host' };
  assert.match(
    textLine(JSON.stringify(refused), false),
    /unknown-host {5}192\.0\.2\.1:50000 → api\.a\.lab in/,
  );
});

test('textLine() says why a backend was not reached', () => {
  const failed = { ...connection, level: 'warn', reason: 'connect-failed', error: 'refused' };
  assert.match(
    textLine(JSON.stringify(failed), false),
    /warn connect-failed {3}192\.0\.2\.1:50000 → a\/api 192\.0\.2\.9:6443 refused \(api\.a\.lab\) in/,
  );
});

test('textLine() names the level unless it is info, and the fields', () => {
  const line = { level: 'warn', time: '2026-01-02T03:04:05.678Z', msg: 'dropped', count: 7 };
  assert.equal(textLine(JSON.stringify(line), false), '03:04:05.678 warn dropped count=7\n');
});

test('textLine() colours only when asked to', () => {
  const escape = '\x1b[';
  assert.ok(!textLine(JSON.stringify(connection), false).includes(escape));
  assert.ok(textLine(JSON.stringify(connection), true).includes(escape));
});
