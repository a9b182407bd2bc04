import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RefusalEvent } from './api.ts';
import { addRefusal, noRefusals, type Refusals, withoutPort } from './refusals.ts';

test('addRefusal() has the newest first', () => {
  const { list } = add([refusal({ host: 'a.test' }), refusal({ host: 'b.test' })]);
  assert.deepEqual(
    list.map(({ host }) => host),
    ['b.test', 'a.test'],
  );
});

test('addRefusal() counts the same refusal again on its line and moves it to the top', () => {
  const events = [
    refusal({ client: '192.0.2.1:1000' }),
    refusal({ host: 'b.test' }),
    refusal({ client: '192.0.2.1:2000', at: '2026-01-01T00:00:09Z' }),
  ];
  const { list } = add(events);
  assert.deepEqual(
    list.map(({ host, times }) => [host, times]),
    [
      ['a.test', 2],
      ['b.test', 1],
    ],
  );
  assert.equal(list[0].at, Date.parse('2026-01-01T00:00:09Z'));
  assert.notEqual(list[0].key, list[1].key);
  assert.equal(list[0].key, add(events.slice(0, 1)).list[0].key);
});

test('addRefusal() lists failed dials by their error', () => {
  const failed = (error: string) => refusal({ reason: 'connect-failed', error });
  const { list } = add([failed('refused'), failed('timeout'), failed('refused'), refusal({})]);
  assert.deepEqual(
    list.map(({ reason, error, times }) => [reason, error, times]),
    [
      [refusal({}).reason, '', 1],
      ['connect-failed', 'refused', 2],
      ['connect-failed', 'timeout', 1],
    ],
  );
});

test('addRefusal() keeps the last 100', () => {
  const { list } = add(Array.from({ length: 250 }, (_, index) => refusal({ host: `h${index}.test` })));
  assert.equal(list.length, 100);
  assert.equal(list[0].host, 'h249.test');
  assert.equal(new Set(list.map(({ key }) => key)).size, 100);
});

test('addRefusal() adds up refusals that the gateway left out', () => {
  assert.equal(add([refusal({ skipped: 40 }), refusal({}), refusal({ skipped: 2 })]).skipped, 42);
});

test('addRefusal() takes unknown host, client and cluster', () => {
  const [{ host, client, cluster }] = add([refusal({ host: null, client: null, cluster: null })]).list;
  assert.deepEqual([host, client, cluster], ['', '', '']);
  assert.equal(add([refusal({ host: null, clusterId: 'some-id' })]).list[0].host, 'some-id');
});

test('withoutPort() leaves the address', () => {
  assert.deepEqual(['192.0.2.1:443', '[2001:db8::1]:443', ''].map(withoutPort), [
    '192.0.2.1',
    '2001:db8::1',
    '',
  ]);
});

function refusal(change: Partial<RefusalEvent>): RefusalEvent {
  return {
    at: '2026-01-01T00:00:00Z',
    reason: 'unknown-host',
    host: 'a.test',
    client: '192.0.2.1:1234',
    cluster: null,
    ...change,
  };
}

function add(events: readonly RefusalEvent[]): Refusals {
  return events.reduce(addRefusal, noRefusals);
}
