import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeathLog } from './death-log.ts';

test('DeathLog.add() has no pause after the first death, and a longer one after each further death in a row', () => {
  const log = new DeathLog<'worker'>();
  let now = 1000;
  const pauses = Array.from({ length: 9 }, () => {
    const { pauseMs } = log.add('worker', now);
    // It dies as soon as it has started.
    now += pauseMs + 10;
    return pauseMs;
  });
  assert.deepEqual(pauses, [0, 1000, 5000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
});

test('DeathLog.add() reports a kind that keeps dying after three deaths within a minute', () => {
  const log = new DeathLog<'worker' | 'http'>();
  assert.deepEqual(
    [0, 20_000, 40_000].map(at => log.add('worker', at).keepsDying),
    [false, false, true],
  );
  assert.equal(log.add('http', 41_000).keepsDying, false);
});

test('DeathLog.add() starts counting again after a minute without a death', () => {
  const log = new DeathLog<'worker'>();
  for (const at of [0, 100, 2000]) log.add('worker', at);
  const { count, pauseMs } = log.add('worker', 2000 + 5000 + 60_000);
  assert.deepEqual([count, pauseMs], [1, 0]);
});

test('DeathLog.failing() names the kind until its threads have lived for a while after the pause', () => {
  const log = new DeathLog<'worker' | 'http'>();
  log.add('http', 0);
  log.add('worker', 0);
  log.add('worker', 100);
  assert.equal(log.failing(200), undefined);
  const { pauseMs } = log.add('worker', 1200);
  assert.equal(log.failing(1300), 'worker');
  assert.equal(log.failing(1200 + pauseMs + 9999), 'worker');
  assert.equal(log.failing(1200 + pauseMs + 10_000), undefined);
});
