// How a worker reacts when a protocol thread closes a connection it was handed. Feature tests are in test/features.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AGAIN, HUNG_UP, READABLE, RESET } from '../io/reactor.ts';
import { HTTP, TLS } from '../shared/rows.ts';
import { HTTP_SLOT, REASONS_AT, TUNNEL_SLOT } from '../shared/shared-memory.ts';
import { CLIENT, handedOff, LINK } from './handed-off.samples.ts';
import { reasonIndex } from './record-end.ts';
import { tunnelEvent } from './tunnel.ts';

const threads = [
  ['HTTP', HTTP_SLOT, HTTP, 'HTTP/1.1 503 '],
  // The TLS alert internal_error.
  ['TLS', TUNNEL_SLOT, TLS, '\x15\x03\x01\0\x02\x02P'],
] as const;

/** A handed-off connection; `read` is the result of reading the link to the thread. */
function given(slot: number, protocol: number, read: number) {
  const written: Buffer[] = [];
  const reactor = {
    read: (handle: number) => (handle === LINK ? read : AGAIN),
    write: (_: number, bytes: Uint8Array, from: number, to: number) => {
      written.push(Buffer.from(bytes.subarray(from, to)));
      return to - from;
    },
    shutdown() {},
    close() {},
    reset() {},
  };
  const { path, rows, verdicts, counters } = handedOff(reactor, slot);
  rows.protocol[CLIENT] = protocol;
  const count = (reason: 'over-limit' | 'shutdown') => counters.get(0, REASONS_AT + reasonIndex[reason]);
  const close = () => tunnelEvent(path, LINK, READABLE | HUNG_UP);
  return { verdicts, close, count, sent: () => Buffer.concat(written).toString('latin1') };
}

for (const [name, slot, protocol, refusal] of threads) {
  for (const [how, read] of [
    ['FIN', 0],
    ['a reset', RESET],
  ] as const) {
    test(`tunnelEvent(): the ${name} thread ends an untaken hand-off with ${how}: refused with over-limit`, () => {
      const { close, count, sent } = given(slot, protocol, read);
      close();
      assert.deepEqual([count('over-limit'), count('shutdown')], [1, 0]);
      assert.ok(sent().startsWith(refusal), sent());
    });
  }

  test(`tunnelEvent(): the ${name} thread breaks off a connection it has taken: the thread has died`, () => {
    const { verdicts, close, count, sent } = given(slot, protocol, slot === HTTP_SLOT ? 0 : RESET);
    verdicts.say(CLIENT, verdicts.generation(CLIENT), {
      slot: 0,
      backendSlot: 0,
      dialMs: -1,
      reason: -1,
      isBroken: false,
      isEnding: false,
    });
    close();
    assert.deepEqual([count('over-limit'), count('shutdown')], [0, 1]);
    assert.equal(sent(), '');
  });
}
