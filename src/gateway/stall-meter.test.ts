import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StallMeter } from './stall-meter.ts';

const LIMIT = 1000;
const stream = (bytesRead: number, bytesWritten: number, writableLength: number, writeQueueSize = 0) => ({
  bytesRead,
  bytesWritten,
  writableLength,
  _handle: { writeQueueSize },
});

test('StallMeter.isStalled() when bytes wait and nothing moves for the limit', () => {
  const meter = new StallMeter();
  const still = [stream(10, 100, 40), undefined, stream(0, 5, 0)];
  assert.deepEqual(
    [0, 500, 999, 1000, 5000].map(now => meter.isStalled(still, false, LIMIT, now)),
    [false, false, false, true, true],
  );
});

test('StallMeter.isStalled() counts a chunk written bit by bit, and the other direction, as progress', () => {
  for (const next of [
    (now: number) => stream(10, 100, 40, 40 - now / 100),
    (now: number) => stream(10 + now, 100, 40),
    (now: number) => stream(10, 100 + now, 40),
  ]) {
    const meter = new StallMeter();
    for (let now = 0; now < 4000; now += 100)
      assert.equal(meter.isStalled([next(now)], false, LIMIT, now), false, `${now}`);
  }
});

test('StallMeter.isStalled() starts over when nothing waits any more', () => {
  const meter = new StallMeter();
  assert.equal(meter.isStalled([stream(0, 100, 40)], false, LIMIT, 0), false);
  // Nothing waits: it may be idle for any time.
  assert.equal(meter.isStalled([stream(0, 100, 0)], false, LIMIT, 900), false);
  assert.equal(meter.isStalled([stream(0, 100, 0)], false, LIMIT, 9000), false);
  assert.equal(meter.isStalled([stream(0, 140, 40)], false, LIMIT, 9500), false);
  assert.equal(meter.isStalled([stream(0, 140, 40)], false, LIMIT, 9900), false);
  assert.equal(meter.isStalled([stream(0, 140, 40)], false, LIMIT, 10_000), true);
});

test('StallMeter.isStalled() when more is awaited, and never without a limit', () => {
  const meter = new StallMeter();
  assert.equal(meter.isStalled([stream(7, 0, 0)], true, LIMIT, 0), false);
  assert.equal(meter.isStalled([stream(7, 0, 0)], true, LIMIT, 1000), true);
  assert.equal(meter.isStalled([stream(7, 0, 0)], true, undefined, 1_000_000), false);
});
