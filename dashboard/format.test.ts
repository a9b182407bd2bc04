import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  formatByteRate,
  formatBytes,
  formatClock,
  formatCount,
  formatDuration,
  formatMoment,
  formatRate,
  plural,
} from './format.ts';

test('formatCount() writes small counts out and shortens large ones', () => {
  const cases: [number, string][] = [
    [0, '0'],
    [999, '999'],
    [12_345, '12,345'],
    [99_999, '99,999'],
    [100_000, '100 k'],
    [999_499, '999 k'],
    [999_500, '1.00 M'],
    [12_340_000, '12.3 M'],
    [7_000_000_000, '7.00 G'],
  ];
  for (const [count, text] of cases) assert.equal(formatCount(count), text);
});

test('formatBytes() has three digits and the unit', () => {
  const cases: [number, string][] = [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '0.98 KiB'],
    [1024, '1.00 KiB'],
    [10_229, '9.99 KiB'],
    [10_240, '10.0 KiB'],
    [102_390, '100 KiB'],
    [1_023_600, '0.98 MiB'],
    [914 * 2 ** 30, '914 GiB'],
    [5000 * 2 ** 50, '5000 PiB'],
  ];
  for (const [bytes, text] of cases) assert.equal(formatBytes(bytes), text);
});

test('formatBytes() stays short, whatever comes', () => {
  fc.assert(fc.property(fc.nat(2 ** 50), bytes => formatBytes(bytes).length <= 8));
});

test('formatRate() and formatByteRate() say – until a rate is known', () => {
  assert.equal(formatRate(undefined), '–');
  assert.equal(formatByteRate(undefined), '–');
  const cases: [number, string][] = [
    [0, '0/s'],
    [0.04, '<0.1/s'],
    [0.25, '0.3/s'],
    [3, '3/s'],
    [9.94, '9.9/s'],
    [42.4, '42/s'],
    [12_000, '12,000/s'],
  ];
  for (const [rate, text] of cases) assert.equal(formatRate(rate), text);
  assert.equal(formatByteRate(1.5 * 2 ** 20), '1.50 MiB/s');
});

test('formatDuration() gives the two largest units', () => {
  const cases: [number, string][] = [
    [0, '0 s'],
    [0.44, '0.4 s'],
    [9.9, '9.9 s'],
    [59, '59 s'],
    [60, '1 min'],
    [125, '2 min 5 s'],
    [3600, '1 h'],
    [3605, '1 h'],
    [90_000, '1 d 1 h'],
    [86_400 * 400, '400 d'],
  ];
  for (const [seconds, text] of cases) assert.equal(formatDuration(seconds), text);
});

test('formatClock() is the local time of day, and – for what is no time', () => {
  assert.equal(formatClock(new Date(2026, 0, 2, 9, 5, 7).getTime()), '09:05:07');
  assert.equal(formatClock(Number.NaN), '–');
});

test('formatMoment() has the day where it is not today', () => {
  const now = new Date(2026, 0, 2, 0, 5, 7).getTime();
  assert.equal(formatMoment(now - 60_000, now), '00:04:07');
  assert.equal(formatMoment(now - 600_000, now), '2026-01-01 23:55');
  assert.equal(formatMoment(Number.NaN, now), '–');
});

test('plural() knows one from many', () => {
  assert.deepEqual(
    [plural(0, 'host'), plural(1, 'host'), plural(1200, 'host')],
    ['0 hosts', '1 host', '1,200 hosts'],
  );
});
