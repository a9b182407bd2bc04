import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Balance, balances } from '../../cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { setDown } from '../health/shared-health.ts';
import { CLIENT, Rows } from '../shared/rows.ts';
import { BACKEND_FIELDS, SharedSlots, TOTAL_DOWN, TOTAL_FIELDS } from '../shared/shared-memory.ts';
import { Table } from '../table/table.ts';
import { TableAuthor } from '../table/table-author.ts';
import { firstBackend, orderBackends } from './balance.ts';
import type { DataPath } from './data-path.ts';

const HANDLE = 5;

/** A pool of `count` backends, the shared memory of their slots, and one client. */
function given(balance: Balance, count: number) {
  const texts = Array.from({ length: count }, (_, index) => `192.0.2.${index + 1}:6443`);
  const sample = sampleRoute({ hosts: ['a.test'], backends: texts });
  const route = { ...sample, pool: { ...sample.pool, balance } };
  const { put } = new TableAuthor().change([sampleCluster('a', { routes: [route] })], backend => [
    backend.host,
  ]);
  const table = new Table();
  table.apply([], put);
  const [served] = table.routesByHost('a.test') ?? [];
  const rows = new Rows(Rows.memory(16));
  const backends = new SharedSlots(BACKEND_FIELDS);
  backends.addPage(SharedSlots.newPage(BACKEND_FIELDS));
  const totals = new Int32Array(new SharedArrayBuffer(4 * TOTAL_FIELDS));
  const path = { rows, shared: { backends, totals } } as unknown as DataPath;
  const set = (index: number, down: boolean) => setDown(backends, totals, served.backends[index].slot, down);
  return {
    totals,
    set,
    first: () => firstBackend(path, HANDLE, served),
    order: (first: number) => orderBackends(path, HANDLE, served, first),
    comesFrom(address: string) {
      rows.addresses.set(parseIp(address) ?? [], rows.addressAt(HANDLE, CLIENT));
      rows.host[HANDLE] = `${address}.test`;
    },
  };
}

const states = fc.array(fc.boolean(), { minLength: 1, maxLength: 6 });

for (const balance of balances) {
  test(`firstBackend() by ${balance} picks a backend that is up while there is one`, () => {
    fc.assert(
      fc.property(states, fc.nat({ max: 255 }), (down, last) => {
        const it = given(balance, down.length);
        down.forEach((state, index) => it.set(index, state));
        it.comesFrom(`198.51.100.${last}`);
        for (let i = 0; i < 2 * down.length; i++) {
          const first = it.first();
          assert.ok(first >= 0 && first < down.length);
          if (down.includes(false)) assert.equal(down[first], false);
        }
      }),
    );
  });

  test(`orderBackends() by ${balance} lists every backend once, those that are down last`, () => {
    fc.assert(
      fc.property(states, down => {
        const it = given(balance, down.length);
        down.forEach((state, index) => it.set(index, state));
        it.comesFrom('198.51.100.1');
        const first = it.first();
        const order = it.order(first);
        assert.equal(order[0], first);
        assert.deepEqual(
          order.toSorted((a, b) => a - b),
          down.map((_, index) => index),
        );
        const seen = order.map(index => down[index]);
        assert.deepEqual(
          seen,
          seen.toSorted((a, b) => Number(a) - Number(b)),
        );
      }),
    );
  });
}

for (const balance of ['source', 'host'] as const) {
  test(`firstBackend() by ${balance} moves only the clients of the backend that is down, and back`, () => {
    const it = given(balance, 4);
    const clients = Array.from({ length: 256 }, (_, last) => `198.51.100.${last}`);
    const choices = () =>
      clients.map(client => {
        it.comesFrom(client);
        return it.first();
      });
    const before = choices();
    it.set(2, true);
    const without = choices();
    for (const [index, choice] of before.entries()) {
      if (choice === 2) assert.notEqual(without[index], 2);
      else assert.equal(without[index], choice);
    }
    assert.equal(new Set(without).size, 3, 'they are spread over all others');
    it.set(2, false);
    assert.deepEqual(choices(), before);
    // All down is the same as all up.
    for (let index = 0; index < 4; index++) it.set(index, true);
    assert.deepEqual(choices(), before);
  });
}

test('firstBackend() by round-robin spreads the turns of a backend that is down evenly', () => {
  const it = given('round-robin', 4);
  it.set(1, true);
  const counts = [0, 0, 0, 0];
  for (let i = 0; i < 30; i++) counts[it.first()]++;
  assert.deepEqual(counts, [10, 0, 10, 10]);
});

test('firstBackend() by round-robin gives every client every backend, even to clients that alternate', () => {
  const backends = fc.integer({ min: 2, max: 5 });
  const clients = fc.integer({ min: 1, max: 8 });
  fc.assert(
    fc.property(backends, clients, (backends, clients) => {
      const it = given('round-robin', backends);
      const met = Array.from({ length: clients }, () => new Set<number>());
      const counts = Array.from({ length: backends }, () => 0);
      // The worst case: as many attempts per client as that needs, with all clients in step with the backends.
      for (let attempt = 0; attempt < 4 * backends * backends; attempt++) {
        for (const seen of met) {
          const first = it.first();
          seen.add(first);
          counts[first]++;
        }
      }
      for (const seen of met) assert.equal(seen.size, backends);
      assert.equal(new Set(counts).size, 1, `each has as many: ${counts}`);
    }),
  );
});

test('setDown() keeps the total right however often it is called', () => {
  const it = given('random', 3);
  for (const [index, down] of [
    [0, true],
    [0, true],
    [1, true],
    [2, false],
    [0, false],
    [0, false],
  ] as const)
    it.set(index, down);
  assert.equal(it.totals[TOTAL_DOWN], 1);
});
