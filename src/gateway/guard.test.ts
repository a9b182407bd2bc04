import assert from 'node:assert/strict';
import { test } from 'node:test';
import { guard } from './guard.ts';

test('guard() passes arguments on, and exceptions only to the owner', () => {
  const faults: unknown[] = [];
  const calls: unknown[] = [];
  const owner = { onFault: (error: unknown) => faults.push(error) };
  const thrown = new Error('injected');
  const guarded = guard(owner, (one: number, other: string) => {
    calls.push(one, other);
    if (one === 2) throw thrown;
  });
  guarded(1, 'a');
  guarded(2, 'b');
  guarded(3, 'c');
  assert.deepEqual([calls, faults], [[1, 'a', 2, 'b', 3, 'c'], [thrown]]);
});
