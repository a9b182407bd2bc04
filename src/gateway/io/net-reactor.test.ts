import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pattern } from './contract/messages.ts';
import { digestOf, socketDirectory } from './contract/outside.ts';
import { fill, pair } from './contract/pair.ts';
import { type Adapter, contractTest } from './contract/reactor-thread.ts';
import { reactorErrorOf } from './net-reactor.ts';
import { reactorContract } from './reactor.contract.ts';
import { BROKEN, DENIED, EXHAUSTED, errorWord, TIMED_OUT } from './reactor.ts';

const adapter: Adapter = { name: 'net', module: new URL('./contract/net-adapter.ts', import.meta.url) };

reactorContract(adapter);

// More than the port promises: bytes that close() has yet to write wait in this process, not in the kernel.
contractTest(adapter, 'close() drops what still comes until all is written', async start => {
  await using directory = await socketDirectory();
  const { thread, handle, peer } = await pair(start(), directory.path('listener'));
  const taken = await fill(thread, handle);
  await thread.ask({ op: 'close', handle });
  await peer.send(pattern(0, 1_000_000));
  for (let i = 0; i < 50; i++) await thread.ask();
  assert.deepEqual(await peer.takeAll(), { count: taken, digest: digestOf(taken), end: 'end' });
});

test('reactorErrorOf() maps errors that tests cannot provoke everywhere', () => {
  const words = ['EACCES', 'EMFILE', 'ETIMEDOUT', 'EWHATEVER'].map(code =>
    reactorErrorOf({ name: '', message: '', code }),
  );
  assert.deepEqual(words, [DENIED, EXHAUSTED, TIMED_OUT, BROKEN]);
  assert.equal(errorWord(words[0]), 'permission denied');
});
