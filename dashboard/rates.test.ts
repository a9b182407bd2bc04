import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addReading, type Counters, ratesOver } from './rates.ts';

test('ratesOver() knows nothing until there are two readings', () => {
  assert.equal(ratesOver([]), undefined);
  assert.equal(ratesOver(read([reading(0, 5)])), undefined);
});

test('ratesOver() is the growth per second over all readings', () => {
  const readings = read([reading(0, 100), reading(2000, 100), reading(4000, 140)]);
  assert.deepEqual(ratesOver(readings), { connections: 10, bytesIn: 100, bytesOut: 1000, refused: 1 });
});

test('ratesOver() takes only the readings of a shorter window where asked to', () => {
  const readings = read([reading(0, 0), reading(2000, 0), reading(4000, 40)]);
  assert.equal(ratesOver(readings, 2000)?.connections, 20);
});

test('addReading() forgets what is older than the window', () => {
  const readings = read([reading(0, 0), reading(2000, 1000), reading(11_000, 1000), reading(12_000, 1000)]);
  assert.deepEqual(
    readings.map(({ at }) => at),
    [2000, 11_000, 12_000],
  );
  assert.equal(ratesOver(readings)?.connections, 0);
});

test('addReading() starts again when a counter fell: the gateway was restarted', () => {
  const readings = read([reading(0, 100), reading(2000, 200), reading(4000, 7)]);
  assert.deepEqual(
    readings.map(({ at }) => at),
    [4000],
  );
  assert.equal(ratesOver(readings), undefined);
  assert.equal(ratesOver(addReading(readings, reading(6000, 27)))?.connections, 10);
});

test('ratesOver() is never negative, though connections are not counted at one instant', () => {
  const before = reading(0, 100);
  const readings = addReading([before], { ...before, at: 2000, connections: 98 });
  assert.equal(readings.length, 2);
  assert.equal(ratesOver(readings)?.connections, 0);
});

test('addReading() starts again when the clock stands still or goes back', () => {
  assert.equal(read([reading(2000, 1), reading(2000, 5)]).length, 1);
});

function reading(at: number, connections: number): Counters {
  return {
    at,
    connections,
    bytesIn: connections * 10,
    bytesOut: connections * 100,
    refused: connections / 10,
  };
}

function read(readings: readonly Counters[]): readonly Counters[] {
  return readings.reduce<readonly Counters[]>(addReading, []);
}
