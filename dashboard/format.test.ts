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
    [1000, '1.00 kB'],
    [9_994, '9.99 kB'],
    [9_996, '10.0 kB'],
    [99_960, '100 kB'],
    [999_600, '1.00 MB'],
    [914_400_000_000, '914 GB'],
    [5e18, '5000 PB'],
  ];
  for (const [bytes, text] of cases) assert.equal(formatBytes(bytes), text);
});

test('formatBytes() stays short, whatever comes', () => {
  fc.assert(fc.property(fc.nat(2 ** 50), bytes => formatBytes(bytes).length <= 7));
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
  assert.equal(formatByteRate(1_500_000), '1.50 MB/s');
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
