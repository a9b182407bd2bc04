import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { choosePinning, chooseSharedPinning, parseCores } from './pinning.ts';

test('choosePinning() gives load and proxy a core each where there are two', () => {
  const { load, proxy, workers, text } = choosePinning([0, 1]);
  assert.deepEqual([load, proxy, workers], [[0], [1], 1]);
  assert.equal(text, 'load on core 0, proxy on core 1 (taskset); 1 worker each');
});

test('choosePinning() has both share the only core', () => {
  const { load, proxy, workers } = choosePinning([3]);
  assert.deepEqual([load, proxy, workers], [[3], [3], 1]);
});

test('choosePinning() splits the cores, the odd one to the load, and never shares', () => {
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

test('chooseSharedPinning() has all share all where the proxy would have one core', () => {
  assert.deepEqual(chooseSharedPinning([0, 1]).proxy, [0, 1]);
  assert.deepEqual(chooseSharedPinning([0, 1, 2]).load, [0, 1, 2]);
  assert.deepEqual(chooseSharedPinning([0, 1, 2, 3]).proxy, [2, 3]);
});

test('parseCores() reads lists and ranges', () => {
  assert.deepEqual(parseCores('0-2,5'), [0, 1, 2, 5]);
  assert.deepEqual(parseCores('7'), [7]);
});
