import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { choosePinning, chooseSharedPinning, parseCores } from './pinning.ts';

test('choosePinning() gives load and proxy one core each on two cores', () => {
  const { load, proxy, workers, text } = choosePinning([0, 1]);
  assert.deepEqual([load, proxy, workers], [[0], [1], 1]);
  assert.equal(text, 'load on core 0, proxy on core 1 (taskset); 1 worker each');
});

test('choosePinning() shares a single core', () => {
  const { load, proxy, workers } = choosePinning([3]);
  assert.deepEqual([load, proxy, workers], [[3], [3], 1]);
});

test('choosePinning() splits the cores without sharing, the odd one to the load', () => {
  const cores = fc.uniqueArray(fc.nat(255), { minLength: 2, maxLength: 64 });
  fc.assert(
    fc.property(cores, available => {
      const { load, proxy, workers } = choosePinning(available);
      assert.deepEqual([...load, ...proxy], available);
      assert.ok(load.length - proxy.length <= 1 && load.length >= proxy.length);
      assert.ok(workers >= 1 && workers <= proxy.length);
    }),
  );
});

test('chooseSharedPinning() shares all cores if the proxy would have only one', () => {
  assert.deepEqual(chooseSharedPinning([0, 1]).proxy, [0, 1]);
  assert.deepEqual(chooseSharedPinning([0, 1, 2]).load, [0, 1, 2]);
  assert.deepEqual(chooseSharedPinning([0, 1, 2, 3]).proxy, [2, 3]);
});

test('parseCores() parses lists and ranges', () => {
  assert.deepEqual(parseCores('0-2,5'), [0, 1, 2, 5]);
  assert.deepEqual(parseCores('7'), [7]);
});
