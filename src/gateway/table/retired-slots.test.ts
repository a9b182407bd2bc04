import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RetiredSlots } from './retired-slots.ts';

const MINUTE = 60_000;

test('RetiredSlots.takeIdle() returns a slot once its time is over and its last connection gone', () => {
  const busy = new Set([1]);
  const active = (slot: number) => (busy.has(slot) ? 1 : 0);
  const actives = { routes: active, clusters: () => 0, backends: () => 0 };
  const retired = new RetiredSlots();
  retired.add({ routes: [1, 2], clusters: [3], backends: [] }, 0);
  retired.add({ routes: [4], clusters: [], backends: [5] }, MINUTE);

  assert.equal(retired.takeIdle(actives, 5 * MINUTE - 1), undefined);
  assert.deepEqual(retired.takeIdle(actives, 5 * MINUTE), { routes: [2], clusters: [3], backends: [] });
  busy.delete(1);
  assert.deepEqual(retired.takeIdle(actives, 6 * MINUTE), { routes: [4, 1], clusters: [], backends: [5] });
  assert.equal(retired.takeIdle(actives, 12 * MINUTE), undefined);
});
