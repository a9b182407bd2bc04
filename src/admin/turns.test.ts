import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Turns } from './turns.ts';

test('Turns.take() runs one at a time, and yields in between', async () => {
  const turns = new Turns();
  const order: string[] = [];
  const all = ['a', 'b', 'c'].map(name =>
    turns.take(async () => {
      order.push(name);
      await setImmediate();
      order.push(name);
      return name;
    }),
  );
  let between = 0;
  void (async () => {
    for (; order.length < 6; between++) await setImmediate();
  })();
  assert.deepEqual(await Promise.all(all), ['a', 'b', 'c']);
  assert.deepEqual(order, ['a', 'a', 'b', 'b', 'c', 'c']);
  assert.ok(between >= 3);
});

test('Turns.take() works after one that failed', async () => {
  const turns = new Turns();
  const failed = turns.take(() => {
    throw new Error('on purpose');
  });
  const next = turns.take(() => 'next');
  await assert.rejects(failed ?? assert.fail(), /on purpose/);
  assert.equal(await next, 'next');
});

test('Turns.take() limits how many wait', async () => {
  const turns = new Turns();
  const taken = Array.from({ length: 100 }, (_, i) => turns.take(() => i));
  assert.equal(taken.filter(turn => turn === undefined).length, 36);
  await Promise.all(taken);
  assert.equal(await turns.take(() => 'again'), 'again');
});
