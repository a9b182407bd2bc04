import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LENT } from '../shared/rows.ts';
import { HTTP_SLOT } from '../shared/shared-memory.ts';
import { end } from './end.ts';
import { CLIENT, handedOff, LINK } from './handed-off.samples.ts';

const DESCRIPTOR = 9;

/** A connection whose descriptor is lent to the HTTP thread. */
function given() {
  const calls: string[] = [];
  const reactor = {
    close: (handle: number) => void calls.push(`close ${handle}`),
    discard: (descriptor: number) => void calls.push(`discard ${descriptor}`),
  };
  const { path, rows, verdicts } = handedOff(reactor, HTTP_SLOT);
  rows.flags[CLIENT] |= LENT;
  verdicts.lend(CLIENT, { lend: () => DESCRIPTOR });
  return { path, verdicts, calls };
}

test('end() closes a lent descriptor that the HTTP thread has not taken', () => {
  const { path, verdicts, calls } = given();
  const generation = verdicts.generation(CLIENT);
  end(path, CLIENT, 'drained');
  assert.deepEqual(calls, [`discard ${DESCRIPTOR}`, `close ${LINK}`, `close ${CLIENT}`]);
  assert.equal(verdicts.borrow(CLIENT, generation), undefined);
});

test('end() leaves a lent descriptor open that the HTTP thread has taken', () => {
  const { path, verdicts, calls } = given();
  assert.equal(verdicts.borrow(CLIENT, verdicts.generation(CLIENT)), DESCRIPTOR);
  end(path, CLIENT, 'drained');
  assert.deepEqual(calls, [`close ${LINK}`, `close ${CLIENT}`]);
});
