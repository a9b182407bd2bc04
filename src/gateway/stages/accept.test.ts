// Unit tests on a scripted reactor. The last one needs to end a worker, which feature tests cannot do from outside: the
// counts of its pending connections are released.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tlsAlert } from '../../wire/tls-alert.ts';
import { closeReasons } from '../close-reason.ts';
import { startSampleGateway } from '../control/gateway.samples.ts';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import { leaveListener } from './accept.ts';
import { helloFor, type ScriptedPath, scriptedTest } from './scripted-path.samples.ts';

/** Far more than any step here takes. */
const WAIT_MS = 20_000;

/** That many clients connect and send nothing. */
function silent(it: ScriptedPath, count: number, from?: string): ScriptedPeer[] {
  const clients = Array.from({ length: count }, () => it.connects(from));
  it.io.settle();
  return clients;
}

const ends = (clients: readonly ScriptedPeer[]) => clients.map(({ end }) => end);

for (const [limit, settings] of [
  ['connections', { connections: 2 }],
  ['pending', { pending: 2 }],
  ['pendingPerSource', { pendingPerSource: 2 }],
  // The listener has number 3.
  ['clientFiles', { clientFiles: 6 }],
] as const) {
  scriptedTest(
    `acceptAll() closes a client beyond \`${limit}\`, and serves one that comes later`,
    { settings },
    it => {
      const clients = silent(it, 3);
      assert.deepEqual([ends(clients), it.reasons], [[undefined, undefined, 'fin'], ['over-limit']]);
      assert.deepEqual([it.open.connections, it.open.pending], [2, 2]);
      clients[0].fin();
      it.io.settle();
      const [later] = silent(it, 1);
      assert.deepEqual([later.end, it.open.pending], [undefined, 2]);
    },
  );
}

scriptedTest('acceptAll() counts only clients whose destination is unknown as pending', {}, it => {
  const [client] = silent(it, 1);
  assert.deepEqual([it.open.pending, it.open.sources], [1, 2]);
  client.sends(helloFor('a.lab'));
  it.io.settle();
  assert.deepEqual([it.open.pending, it.open.sources, it.open.connections], [0, 1, 1]);
});

scriptedTest('acceptAll() limits each source on its own', { settings: { pendingPerSource: 1 } }, it => {
  assert.deepEqual(ends(silent(it, 2, '198.51.100.7')), [undefined, 'fin']);
  assert.deepEqual(ends(silent(it, 1, '198.51.100.8')), [undefined]);
});

scriptedTest(
  'acceptAll() refuses a client over `perSource` in its protocol, and closes one far over it at once',
  { settings: { perSource: 2 } },
  it => {
    const served = silent(it, 2);
    const [third, fourth, flood] = silent(it, 3);
    assert.deepEqual(ends([third, fourth, flood]), [undefined, undefined, 'fin']);
    third.sends(helloFor('a.lab'));
    it.io.settle();
    assert.deepEqual(third.received, Buffer.from(tlsAlert('internal_error')));
    // A refused client gives its place back, but its own excess was decided when it came.
    served[0].fin();
    it.io.settle();
    fourth.sends('GET / HTTP/1.1\r\n');
    it.io.settle();
    assert.match(fourth.text, /^HTTP\/1\.1 503 /);
    assert.deepEqual(it.reasons, ['no-data', 'over-limit', 'over-limit', 'over-limit']);
  },
);

scriptedTest('acceptAll() without descriptors tries again later', {}, it => {
  it.io.isExhausted = true;
  const waiting = it.client(helloFor('a.lab'));
  it.io.passes(1000);
  assert.equal(it.io.accepted, 0);
  it.io.isExhausted = false;
  it.io.passes(200);
  // node:net has closed that client.
  const isServed = it.io.reports === 'state';
  assert.deepEqual([it.io.accepted, waiting.end], isServed ? [1, undefined] : [0, 'reset']);
  const later = it.client(helloFor('a.lab'));
  const served = isServed ? [waiting, later] : [later];
  assert.deepEqual(
    it.io.dialled.map(({ received }) => received),
    served.map(({ sent }) => sent),
  );
});

scriptedTest('acceptAll() takes a long queue in several turns', { capacity: 256 }, it => {
  const { client, backend } = it.tunnel();
  for (let i = 0; i < 90; i++) it.connects(`198.51.100.${i}`);
  client.sends('meanwhile');
  it.io.step();
  assert.ok(it.io.accepted < 90);
  it.io.settle();
  assert.ok(backend.text.endsWith('meanwhile'));
  assert.deepEqual([it.io.accepted, it.open.pending], [91, 90]);
});

scriptedTest('acceptAll() counts a client that has reset already as `no-data`', {}, it => {
  it.connects().resets();
  it.io.settle();
  assert.deepEqual([it.reasons, it.io.open], [['no-data'], []]);
});

scriptedTest(
  'acceptAll() serves a client of a `direct` listener before it sends',
  { listener: { direct: 'a' } },
  it => {
    const [client] = silent(it, 1);
    assert.deepEqual([it.io.dialled.length, it.open.pending], [1, 0]);
    it.backend().sends('welcome');
    client.sends('not even TLS');
    it.io.settle();
    assert.deepEqual([client.text, it.backend().text], ['welcome', 'not even TLS']);
    assert.equal(it.client('early').end, undefined);
    assert.equal(it.backend().text, 'early');
  },
);

scriptedTest(
  'acceptAll() refuses a client of a `direct` listener whose cluster is unknown',
  { listener: { direct: 'b' } },
  it => {
    assert.equal(it.client(helloFor('a.lab')).end, 'fin');
    assert.deepEqual(it.reasons, ['no-backend']);
  },
);

scriptedTest('closeListener() serves the clients that wait, then closes', {}, it => {
  let closed = 0;
  it.path.listenersClosed = () => closed++;
  const waiting = [1, 2, 3].map(() => it.connects().sends(helloFor('a.lab')));
  it.drains();
  it.io.passes(90);
  assert.deepEqual([it.io.dialled.length, closed], [3, 0]);
  it.io.passes(60);
  assert.deepEqual(
    [closed, ends(waiting), it.connects().end],
    [1, [undefined, undefined, undefined], 'reset'],
  );
  waiting[0].sends('still here');
  it.io.settle();
  assert.ok(it.io.dialled[0].text.endsWith('still here'));
});

for (const [what, isExhausted] of [
  ['clients keep coming', false],
  ['clients keep coming and no descriptor is left', true],
] as const) {
  scriptedTest(`closeListener() closes after 5 s, even if ${what}`, { capacity: 256 }, it => {
    let closed = 0;
    it.path.listenersClosed = () => closed++;
    it.drains();
    it.io.isExhausted = isExhausted;
    for (let i = 0; i < 120; i++) {
      // Linux refuses handshakes from the start.
      const { end } = it.connects(`198.51.100.${i}`);
      assert.equal(end, it.io.reports === 'state' || closed > 0 ? 'reset' : undefined);
      it.io.passes(50);
    }
    assert.equal(closed, 1);
  });
}

scriptedTest('leaveListener() serves the clients that wait, and closes at once', {}, it => {
  const waiting = it.connects();
  leaveListener(it.path, it.listener);
  assert.equal(it.connects().end, 'reset');
  waiting.sends(helloFor('a.lab'));
  it.io.settle();
  assert.deepEqual(it.backend().received, waiting.sent);
});

for (const engine of ['epoll', 'net'] as const) {
  test(`pendingPerSource (${engine}): a worker that dies releases the counts of its pending connections`, async () => {
    await using sample = await startSampleGateway(engine, {
      clusters: [],
      workers: 1,
      settings: { pendingPerSource: 3 },
    });
    const { gateway, deaths, records } = sample;
    const port = Number(gateway.listeners[0].address.split(':').at(-1));
    const overLimit = () => {
      gateway.takeRecords();
      return records.filter(({ reason }) => closeReasons[reason] === 'over-limit').length;
    };
    for (let lifetime = 1; lifetime <= 3; lifetime++) {
      const silent = await several(3, () => connect(port));
      await until(() => gateway.connections >= 3);
      const surplus = await connect(port);
      await until(() => surplus.closed && overLimit() >= lifetime);
      gateway.killWorker(0);
      await until(() => deaths.length >= lifetime);
      for (const socket of silent) socket.destroy();
    }
    assert.equal(overLimit(), 3);
  });
}

/** Retries while nothing listens. */
async function connect(port: number): Promise<net.Socket> {
  for (;;) {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {});
    socket.resume();
    const isOpen = await new Promise<boolean>(resolve => {
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    if (isOpen) return socket;
    await sleep(20);
  }
}

async function until(holds: () => boolean): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!holds()) {
    assert.ok(performance.now() < deadline, 'waited in vain');
    await sleep(5);
  }
}

function several<T>(count: number, each: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, each));
}
