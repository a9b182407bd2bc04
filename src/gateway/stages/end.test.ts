import assert from 'node:assert/strict';
import { REFUSED } from '../io/reactor.ts';
import { helloFor, type ScriptedPath, scriptedTest } from './scripted-path.samples.ts';

/** A client in each stage. */
function inEveryStage(it: ScriptedPath) {
  const hello = helloFor('a.lab');
  const identifying = it.client(hello.subarray(0, 9));
  it.io.answer = () => 'silence';
  const dialling = it.client(hello);
  it.io.answer = () => REFUSED;
  const waiting = it.client(hello);
  it.io.answer = () => 'accept';
  const tunnel = it.client(hello);
  const halfClosed = it.client(hello);
  it.backend().fin();
  const stalled = it.client(hello).stalls();
  it.backend().sends(Buffer.alloc(100_000));
  const refused = it.client(helloFor('unknown.lab'));
  it.io.settle();
  assert.deepEqual([it.open.connections, it.open.lingering, it.reasons], [6, 1, ['unknown-host']]);
  return { identifying, dialling, waiting, tunnel, halfClosed, stalled, refused };
}

for (const reason of ['drained', 'shutdown'] as const) {
  scriptedTest(`cutAll() ends the connections of every stage once, as ${reason}`, {}, it => {
    const { stalled, ...others } = inEveryStage(it);
    it.cuts(reason);
    it.cuts(reason);
    assert.deepEqual(it.reasons, [...Array.from({ length: 6 }, () => reason), 'unknown-host'].toSorted());
    assert.ok(Object.values(others).every(client => client.end === 'fin'));
    const { lingering, ...open } = it.open;
    assert.ok(Object.values(open).every(count => count === 0));
    // The refused client may still read.
    assert.deepEqual([lingering, it.io.open.length], [1, 1]);
    // What the kernel has taken for a client still reaches it.
    stalled.resumes();
    assert.equal(stalled.end, 'fin');
  });
}

scriptedTest('end() closes a client that is in the middle of sending', {}, it => {
  const { client, backend } = it.tunnel();
  client.sends('unread');
  it.cuts('drained');
  assert.deepEqual([client.end, backend.end], ['reset', 'fin']);
});

scriptedTest('end() lets the handles of ended connections be used again at once', { capacity: 6 }, it => {
  for (let i = 0; i < 20; i++) {
    const { client, backend } = it.tunnel();
    // Events that are fetched already belong to the connection before.
    client.sends('x').fin();
    backend.sends('y').resets();
    it.io.step(i);
    it.cuts('drained');
  }
  it.io.settle();
  assert.equal(it.reasons.length, 20);
});
