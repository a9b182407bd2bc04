import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expect, type Proof, tryProofs, type Verdict } from './proof.ts';

async function verdicts(proofs: readonly Proof[], signal: AbortSignal): Promise<Verdict[]> {
  return Array.fromAsync(tryProofs(proofs, signal));
}

test('tryProofs() tells what was seen, and goes on after a failure', async () => {
  const proofs: Proof[] = [
    { title: 'one', prove: async () => 'seen' },
    { title: 'two', prove: async () => Promise.reject(new Error('a first line\nand more')) },
    { title: 'three', prove: async () => (expect(false, 'not so'), '') },
  ];
  assert.deepEqual(await verdicts(proofs, new AbortController().signal), [
    { title: 'one', ok: true, text: 'seen' },
    { title: 'two', ok: false, text: 'a first line' },
    { title: 'three', ok: false, text: 'not so' },
  ]);
});

test('tryProofs() has failed what there was no time for', async () => {
  const end = new AbortController();
  const hangs: Proof = {
    title: 'hangs',
    prove: signal =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  };
  setImmediate(() => end.abort());
  const reported = await verdicts([hangs, { title: 'next', prove: async () => 'seen' }], end.signal);
  assert.deepEqual(
    reported.map(({ ok, text }) => [ok, text]),
    [
      [false, 'there was no time left for it'],
      [false, 'there was no time left for it'],
    ],
  );
});
