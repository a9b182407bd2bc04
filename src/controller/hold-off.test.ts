import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { HoldOff } from './hold-off.ts';

const times = { quietMs: 100, maxMs: 1000 };
let now = 0;

beforeEach(() => {
  now = 0;
  mock.timers.enable({ apis: ['setTimeout'] });
  mock.method(performance, 'now', () => now);
});

afterEach(() => mock.reset());

function pass(ms: number): void {
  now += ms;
  mock.timers.tick(ms);
}

const settled = () => new Promise(resolve => setImmediate(resolve));

test('HoldOff runs once for a burst, when nothing has changed for a while', async () => {
  let runs = 0;
  await using holdOff = new HoldOff(async () => void runs++, times);
  for (let i = 0; i < 5; i++) {
    holdOff.changed();
    pass(99);
  }
  assert.equal(runs, 0);
  pass(1);
  assert.equal(runs, 1);
  await settled();
  pass(10_000);
  assert.equal(runs, 1);
});

test('HoldOff does not wait for quiet for ever', async () => {
  let runs = 0;
  await using holdOff = new HoldOff(async () => void runs++, times);
  for (let i = 0; i < 20; i++) {
    holdOff.changed();
    pass(50);
  }
  assert.equal(runs, 1);
});

test('HoldOff never runs twice at once, and runs again for what changed meanwhile', async () => {
  const ends: (() => void)[] = [];
  await using holdOff = new HoldOff(() => new Promise(resolve => ends.push(resolve)), times);
  holdOff.changed();
  pass(100);
  holdOff.changed();
  pass(5000);
  assert.equal(ends.length, 1);
  ends[0]();
  await settled();
  pass(100);
  assert.equal(ends.length, 2);
  ends[1]();
});

test('HoldOff announces the first change of a burst at once, and no other', async () => {
  let firsts = 0;
  await using holdOff = new HoldOff(async () => {}, { ...times, first: () => firsts++ });
  holdOff.changed();
  holdOff.changed();
  assert.equal(firsts, 0);
  await settled();
  assert.equal(firsts, 1);
  pass(50);
  holdOff.changed();
  pass(100);
  await settled();
  pass(99);
  holdOff.changed();
  await settled();
  assert.equal(firsts, 1, 'too soon after the last run');
  pass(100);
  await settled();
  pass(100);
  holdOff.changed();
  await settled();
  assert.equal(firsts, 2);
  await holdOff[Symbol.asyncDispose]();
  holdOff.changed();
  await settled();
  assert.equal(firsts, 2);
});

test('HoldOff starts nothing after its end, and ends after the run in progress', async () => {
  let end = () => {};
  let isOver = false;
  const holdOff = new HoldOff(() => new Promise(resolve => (end = resolve)), times);
  holdOff.changed();
  pass(100);
  holdOff.changed();
  const ended = holdOff[Symbol.asyncDispose]().then(() => (isOver = true));
  await settled();
  assert.equal(isOver, false);
  end();
  await ended;
  holdOff.changed();
  pass(5000);
  assert.equal(isOver, true);
});
