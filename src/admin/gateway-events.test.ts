import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closeReasons } from '../gateway/close-reason.ts';
import type { NamedRecord } from '../gateway/control/gateway-port.ts';
import { parseIp } from '../wire/ip-address.ts';
import { GatewayEvents } from './gateway-events.ts';

type Event = [name: string, data: Record<string, unknown>];

function given(size = 1) {
  const sent: Event[] = [];
  const clock = { now: Date.parse('2026-01-02T03:04:05.000Z') };
  const send = (name: string, data: object) => sent.push([name, data as Event[1]]);
  return { sent, clock, events: new GatewayEvents({ size, send }, () => clock.now) };
}

function record(reason: (typeof closeReasons)[number]): NamedRecord {
  const place = { address: parseIp('192.0.2.1') as Uint8Array, port: 50_000 };
  return {
    listener: 0,
    slot: 0,
    backendSlot: 0,
    protocol: 1,
    reason: closeReasons.indexOf(reason),
    peer: place,
    client: place,
    origin: undefined,
    bytesIn: 517,
    bytesOut: 7,
    ms: 1.26,
    dialMs: -1,
    host: 'nowhere.test',
    clusterId: '',
    clientEndedFirst: false,
    logged: false,
    detail: 0,
    detailSeconds: 0,
    on: ':6443',
    route: undefined,
    backend: undefined,
  };
}

test('GatewayEvents.ended() sends a refusal with the keys of the log', () => {
  const { events, sent } = given();
  events.ended(record('unknown-host'));
  assert.deepEqual(sent, [
    [
      'refusal',
      {
        at: '2026-01-02T03:04:05.000Z',
        listener: ':6443',
        peer: '192.0.2.1:50000',
        client: '192.0.2.1:50000',
        origin: null,
        protocol: 'tls',
        host: 'nowhere.test',
        clusterId: null,
        cluster: null,
        route: null,
        backend: null,
        reason: 'unknown-host',
        error: null,
        in: 517,
        out: 7,
        ms: 1.3,
        dialMs: null,
        skipped: 0,
      },
    ],
  ]);
});

test('GatewayEvents.ended() sends refusals only', () => {
  const { events, sent } = given();
  for (const reason of closeReasons) events.ended(record(reason));
  const sentReasons = sent.map(([, { reason }]) => reason);
  for (const reason of ['done', 'no-data', 'client-gone', 'client-reset', 'shutdown', 'drained'])
    assert.ok(!sentReasons.includes(reason), reason);
  for (const reason of ['revoked', 'not-allowed', 'over-limit', 'connect-failed', 'no-sni'])
    assert.ok(sentReasons.includes(reason), reason);
});

test('GatewayEvents.ended() limits a flood and says how many it left out', () => {
  const { events, sent, clock } = given();
  for (let i = 0; i < 100_000; i++) events.ended(record('over-limit'));
  assert.equal(sent.length, 200);
  clock.now += 1000;
  events.ended(record('over-limit'));
  events.ended(record('over-limit'));
  assert.deepEqual(
    sent.slice(200).map(([, { skipped }]) => skipped),
    [99_800, 0],
  );
});

test('GatewayEvents.ended() does nothing without a listener', () => {
  const { events, sent } = given(0);
  for (let i = 0; i < 1000; i++) events.ended(record('over-limit'));
  assert.deepEqual(sent, []);
});

test('GatewayEvents.health() and table() send changes as they are', () => {
  const { events, sent } = given();
  const change = { cluster: 'a', route: 'api', backend: '192.0.2.9:6443', up: false, why: 'refused' };
  events.health(change);
  events.table({ generation: 2, clusters: 1, routes: 1, hosts: 1, ok: false, error: 'no' });
  const at = '2026-01-02T03:04:05.000Z';
  assert.deepEqual(sent, [
    ['health', { at, ...change }],
    ['table', { at, generation: 2, clusters: 1, routes: 1, hosts: 1, ok: false, error: 'no' }],
  ]);
});
