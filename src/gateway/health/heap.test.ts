import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Heap } from './heap.ts';

test('Heap returns the smallest item first, for any sequence of push() and pop()', () => {
  const steps = fc.array(fc.option(fc.integer({ min: 0, max: 20 })), { maxLength: 200 });
  fc.assert(
    fc.property(steps, steps => {
      const heap = new Heap<{ readonly key: number }>(({ key }) => key);
      let expected: number[] = [];
      for (const key of steps) {
        if (key === null) {
          assert.equal(heap.first?.key, expected[0]);
          assert.equal(heap.pop()?.key, expected[0]);
          expected = expected.slice(1);
        } else {
          heap.push({ key });
          expected = [...expected, key].toSorted((a, b) => a - b);
        }
        assert.deepEqual(
          Array.from(heap, item => item.key).toSorted((a, b) => a - b),
          expected,
        );
      }
    }),
  );
});
