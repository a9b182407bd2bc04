import assert from 'node:assert/strict';
import test from 'node:test';
import { SweepTimer } from './sweep-timer.ts';

test('SweepTimer sweeps only while something is left', ({ mock }) => {
  mock.timers.enable({ apis: ['setInterval'] });
  let left = 0;
  let sweeps = 0;
  const running: boolean[] = [];
  const timer = new SweepTimer(
    250,
    () => {
      sweeps++;
      return left > 0;
    },
    isRunning => running.push(isRunning),
  );
  mock.timers.tick(10_000);
  assert.equal(sweeps, 0, 'nothing has begun');
  left = 1;
  timer.start();
  timer.start();
  mock.timers.tick(1000);
  assert.equal(sweeps, 4, 'one timer, however often it is started');
  left = 0;
  mock.timers.tick(250);
  assert.equal(sweeps, 5, 'a last look finds nothing');
  mock.timers.tick(10_000);
  assert.equal(sweeps, 5);
  left = 1;
  timer.start();
  mock.timers.tick(250);
  assert.equal(sweeps, 6, 'it begins again');
  timer[Symbol.dispose]();
  timer.start();
  mock.timers.tick(10_000);
  assert.equal(sweeps, 6, 'its end is final');
  assert.deepEqual(running, [true, false, true, false]);
});
