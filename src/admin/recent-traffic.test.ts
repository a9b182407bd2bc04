import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CloseReason, closeReasons } from '../gateway/close-reason.ts';
import { ACTIVE_AT, BYTES_IN_AT, BYTES_OUT_AT, REASONS_AT } from '../gateway/shared/shared-memory.ts';
import { type Counted, countedOf, RecentTraffic } from './recent-traffic.ts';
import { trafficOf } from './status.ts';

const MINUTE_MS = 60_000;

/** A gateway with one route, `a api`, and a clock that stands still. */
function given() {
  const clock = { now: 1_000_000 };
  const counters = new Map<number, Map<number, number>>([
    [0, new Map()],
    [3, new Map()],
  ]);
  const names = [undefined, undefined, undefined, { cluster: 'a', route: 'api' }];
  const add = (slot: number, offset: number, amount: number) => {
    const counted = counters.get(slot) ?? new Map();
    counters.set(slot, counted.set(offset, (counted.get(offset) ?? 0) + amount));
  };
  const get = (slot: number) => (offset: number) => counters.get(slot)?.get(offset) ?? 0;
  const gateway = {
    *routes() {
      for (const slot of counters.keys()) yield { slot, route: names[slot], get: get(slot) };
    },
    traffic: (): Counted => countedOf(offset => get(0)(offset) + get(3)(offset)),
    get connections() {
      return get(3)(ACTIVE_AT);
    },
  };
  const recent = new RecentTraffic({ gateway, started: true }, () => clock.now);
  return {
    clock,
    gateway,
    recent,
    clear: () => counters.set(3, new Map()),
    remove: () => counters.delete(3),
    ended: (slot: number, reason: CloseReason, times = 1) =>
      add(slot, REASONS_AT + closeReasons.indexOf(reason), times),
    opened: (times: number) => add(3, ACTIVE_AT, times),
    moved: (bytesIn: number, bytesOut: number) => {
      add(3, BYTES_IN_AT, bytesIn);
      add(3, BYTES_OUT_AT, bytesOut);
    },
    ofRoute: () => recent.ofRoute('a', 'api', countedOf(get(3))),
    /** Reads every half minute, as the timer does. */
    wait: async (minutes: number) => {
      for (let half = 0; half < minutes * 2; half++) {
        clock.now += MINUTE_MS / 2;
        await recent.read();
      }
    },
  };
}

test('RecentTraffic counts everything until five minutes have passed', async () => {
  const { recent, ended, opened, moved, ofRoute, wait } = given();
  ended(3, 'done', 4);
  opened(2);
  moved(10, 20);
  const all = { opened: 6, bytesIn: 10, bytesOut: 20, reasons: { done: 4 } };
  assert.deepEqual(ofRoute(), all, 'before the first reading');
  await wait(4.5);
  assert.deepEqual(ofRoute(), all);
  assert.deepEqual(recent.total(), all);
});

test('RecentTraffic forgets what is older than five minutes', async () => {
  const { recent, ended, moved, ofRoute, wait } = given();
  ended(3, 'done', 4);
  moved(10, 20);
  await wait(2);
  ended(3, 'done', 1);
  ended(3, 'connect-failed', 3);
  await wait(4);
  assert.deepEqual(ofRoute(), {
    opened: 4,
    bytesIn: 0,
    bytesOut: 0,
    reasons: { done: 1, 'connect-failed': 3 },
  });
  await wait(2);
  const none = { opened: 0, bytesIn: 0, bytesOut: 0, reasons: {} };
  assert.deepEqual(ofRoute(), none);
  assert.deepEqual(recent.total(), none);
  ended(3, 'done', 7);
  assert.deepEqual(
    ofRoute(),
    { ...none, opened: 7, reasons: { done: 7 } },
    'a difference from an old reading',
  );
});

test('RecentTraffic counts a connection once, when it was opened', async () => {
  const { ended, opened, ofRoute, wait } = given();
  opened(3);
  await wait(6);
  opened(-1);
  ended(3, 'done');
  assert.deepEqual(ofRoute(), { opened: 0, bytesIn: 0, bytesOut: 0, reasons: { done: 1 } });
});

test('RecentTraffic starts again for another route of the same name', async () => {
  const { clear, remove, ended, ofRoute, wait } = given();
  ended(3, 'done', 9);
  await wait(6);
  clear();
  ended(3, 'done', 2);
  assert.deepEqual(ofRoute().reasons, { done: 2 }, 'before the next reading');
  await wait(1);
  assert.deepEqual(ofRoute().reasons, { done: 2 });
  remove();
  await wait(1);
  clear();
  ended(3, 'done', 12);
  assert.deepEqual(ofRoute().reasons, { done: 12 });
});

test('RecentTraffic.read() joins a reading that is under way', async () => {
  const { recent } = given();
  assert.equal(recent.read(), recent.read());
  await recent.read();
});

test('RecentTraffic reads nothing before the gateway has started', async () => {
  const view = {
    started: false,
    get gateway(): never {
      throw new Error('The gateway is not started');
    },
  };
  await new RecentTraffic(view).read();
});

test('trafficOf() separates connections of no cluster', async () => {
  const { gateway, recent, ended, wait } = given();
  ended(0, 'unknown-host', 5);
  ended(3, 'done', 2);
  await wait(6);
  ended(0, 'not-recognized');
  const { connections, reasons, unrouted } = trafficOf({ gateway, recent });
  assert.deepEqual([connections, reasons], [8, { done: 2, 'unknown-host': 5, 'not-recognized': 1 }]);
  assert.deepEqual(unrouted, {
    connections: 6,
    bytesIn: 0,
    bytesOut: 0,
    reasons: { 'unknown-host': 5, 'not-recognized': 1 },
    recent: { opened: 1, bytesIn: 0, bytesOut: 0, reasons: { 'not-recognized': 1 } },
  });
});
