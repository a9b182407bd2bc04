import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, constantFrom, oneof, property, string } from 'fast-check';
import { CONNECTION_FORMAT, parseLogLine, REQUEST_FORMAT } from './log-line.ts';

const TARGET = 'tcp_source_none_open_4_0/3/1/api';

test('parseLogLine() reads the line of a connection', () => {
  const line = parseLogLine(
    `C l1 127.0.0.9 4000 127.0.0.9 4000 10.0.0.1 1 tls YXBpLmEudGVzdA== aWQtYQ== 4 ${TARGET} - 127.0.0.1 6443 -- 517 6 12 1 0`,
  );
  assert.deepEqual(line, {
    kind: 'connection',
    listener: 1,
    peer: { address: '127.0.0.9', port: 4000 },
    client: { address: '127.0.0.9', port: 4000 },
    origin: { address: '10.0.0.1', port: 1 },
    protocol: 'tls',
    host: 'api.a.test',
    clusterId: 'id-a',
    target: { section: 'tcp_source_none_open_4_0', route: 3, cluster: 1, kind: 'api', isUnresolved: false },
    reason: undefined,
    server: { address: '127.0.0.1', port: 6443 },
    state: '--',
    bytesIn: 517,
    bytesOut: 6,
    ms: 12,
    dialMs: 1,
    dialError: 0,
  });
});

test('parseLogLine() leaves out what is missing', () => {
  const line = parseLogLine('C l0 ::1 4000 - - - - - - - - - not-recognized - - PR 0 0 0 -1 -');
  assert.equal(line?.kind, 'connection');
  if (line?.kind !== 'connection') return;
  assert.deepEqual(line.client, { address: '::1', port: 4000 });
  assert.deepEqual(
    [line.host, line.clusterId, line.target, line.reason, line.server, line.dialMs],
    ['', undefined, undefined, 'not-recognized', undefined, -1],
  );
});

test("parseLogLine() ignores HAProxy's own notices and lines that were cut", () => {
  for (const text of ['', 'C', 'C l0 127.0.0.1', 'Server a/s1 is UP/READY (leaving forced maintenance).'])
    assert.equal(parseLogLine(text), undefined, text);
});

test('no value that a client chose adds a field: each is in base64', () => {
  for (const format of [CONNECTION_FORMAT, REQUEST_FORMAT]) {
    for (const chosen of ['txn.host', 'txn.method', 'sess.id'])
      assert.ok(!format.includes(`var(${chosen})]`), `${chosen} is not encoded`);
  }
});

test('parseLogLine() never throws', () => {
  const field = oneof(string({ unit: 'binary' }), constantFrom('C', 'R', 'E', 'l0', '-', '1', TARGET));
  check(
    property(array(field, { maxLength: 24 }), fields => {
      parseLogLine(fields.join(' '));
    }),
  );
});
