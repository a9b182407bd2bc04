import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as fc from 'fast-check';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../wire/hello.samples.ts';
import { startSampleGateway } from '../control/gateway.samples.ts';
import { FIRST_SLOT, KEPT_AT, RouteCounters } from '../shared/shared-memory.ts';
import { KeptBuffers, READ_BUFFER, SMALL_READ, TINY_READ } from './kept-buffers.ts';

const MIB = 1024 * 1024;

function given() {
  const counters = new RouteCounters();
  counters.addPage(RouteCounters.newPage());
  return { kept: new KeptBuffers(counters), counters };
}

/** Stalls directions of a cluster one by one, each after a full read, until a read has shrunk to `until` bytes. */
function stall(kept: KeptBuffers, cluster: number, first: number, until: number): number {
  let handle = first;
  for (let space = kept.readSpace(cluster); space > until; space = kept.readSpace(cluster))
    kept.keep(handle++, cluster, FIRST_SLOT + cluster, 0, space);
  return handle - first;
}

test('KeptBuffers keeps bytes unchanged, whatever is read next', () => {
  const { kept } = given();
  for (const [handle, from, to] of [
    [1, 0, READ_BUFFER],
    [2, 5, 5 + SMALL_READ + 1],
    [3, 7, 7 + SMALL_READ],
    [4, 9, 10],
  ]) {
    kept.buffer.fill(handle, from, to);
    const bytes = kept.keep(handle, 1, FIRST_SLOT, from, to);
    kept.buffer.fill(0xee);
    const at = bytes.length === to - from ? 0 : from;
    assert.ok(
      bytes.subarray(at, at + to - from).every(byte => byte === handle),
      `${handle}`,
    );
    assert.ok(kept.giveBack(handle, bytes));
    assert.ok(!kept.giveBack(handle, bytes));
  }
});

test('KeptBuffers: one cluster gets half of the large buffers, then small pieces, then tiny ones', () => {
  const { kept } = given();
  assert.equal(stall(kept, 1, 0, SMALL_READ), 32);
  assert.equal(kept.readSpace(1), SMALL_READ);
  assert.equal(stall(kept, 1, 1000, TINY_READ), (16 * MIB) / SMALL_READ);
  assert.equal(kept.readSpace(1), TINY_READ);
});

test('KeptBuffers: another cluster is still read with large buffers, and gets its share of the rest', () => {
  const { kept } = given();
  stall(kept, 1, 0, TINY_READ);
  assert.equal(kept.readSpace(2), READ_BUFFER);
  assert.equal(stall(kept, 2, 100_000, SMALL_READ), 16);
  for (let cluster = 3; cluster < 10; cluster++) {
    assert.notEqual(kept.readSpace(cluster), TINY_READ, `${cluster}`);
    stall(kept, cluster, cluster * 100_000, TINY_READ);
  }
});

test('KeptBuffers: kept memory is bounded overall, counted while it is kept, and all given back', () => {
  const step = fc.record({
    cluster: fc.integer({ min: 1, max: 5 }),
    times: fc.constantFrom(1, 40, 2000),
    rest: fc.double({ min: 0.001, max: 1, noNaN: true }),
    back: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), steps => {
      const { kept, counters } = given();
      const held: { handle: number; bytes: Uint8Array }[] = [];
      const sum = () =>
        [0, 1, 2, 3, 4, 5].reduce(
          (total, slot) => total + counters.get(slot === 0 ? 0 : FIRST_SLOT + slot, KEPT_AT),
          0,
        );
      let handle = 0;
      let tiny = 0;
      for (const { cluster, times, rest, back } of steps) {
        for (let i = 0; i < times; i++) {
          const space = kept.readSpace(cluster);
          if (space === TINY_READ) tiny++;
          const to = Math.max(1, Math.floor(space * rest));
          held.push({ handle, bytes: kept.keep(handle++, cluster, FIRST_SLOT + cluster, 0, to) });
        }
        assert.equal(
          sum(),
          held.reduce((total, { bytes }) => total + bytes.length, 0),
        );
        assert.ok(sum() <= 64 * MIB + SMALL_READ + tiny * TINY_READ, `${sum()} bytes`);
        if (back) for (const one of held.splice(0, held.length / 2)) kept.giveBack(one.handle, one.bytes);
      }
      for (const one of held) kept.giveBack(one.handle, one.bytes);
      assert.equal(sum(), 0);
      assert.equal(kept.readSpace(1), READ_BUFFER);
    }),
    { numRuns: 40 },
  );
});

test('KeptBuffers counts bytes kept for slots without a cluster under no route', () => {
  const { kept, counters } = given();
  const bytes = kept.keep(1, 0, 1, 0, 100);
  assert.equal(counters.get(0, KEPT_AT), 100);
  kept.giveBack(1, bytes);
  assert.equal(counters.get(0, KEPT_AT), 0);
});

test('KeptBuffers: the memory a worker had kept is no longer counted once the worker is gone', async () => {
  const backend = net.createServer(socket => {
    const more = () => {
      while (socket.write(Buffer.alloc(SMALL_READ)));
    };
    socket.on('error', () => {}).on('drain', more);
    more();
  });
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
  const { port } = backend.address() as net.AddressInfo;
  const route = sampleRoute({ hosts: ['api.a.lab'], backends: [`127.0.0.1:${port}`] });
  const sample = await startSampleGateway('epoll', {
    clusters: [sampleCluster('a', { routes: [route] })],
    workers: 1,
  });
  const { gateway, deaths } = sample;
  const kept = () => gateway.routes().reduce((sum, { get }) => sum + get(KEPT_AT), 0);
  const clients = Array.from({ length: 4 }, () => {
    const client = net.connect(Number(gateway.listeners[0].address.split(':').at(-1)), '127.0.0.1');
    client.on('error', () => {}).pause();
    client.write(inRecords(helloMessage({ extensions: [serverNameExtension('api.a.lab')] })));
    return client;
  });
  try {
    while (kept() === 0) await sleep(5);
    gateway.killWorker(0);
    while (deaths.length === 0) await sleep(5);
    assert.equal(kept(), 0);
  } finally {
    for (const client of clients) client.destroy();
    await sample[Symbol.asyncDispose]();
    backend.close();
  }
});
