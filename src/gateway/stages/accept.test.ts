// Needs to end a worker, which feature tests cannot do from outside: the counts of its pending connections are
// released.

import assert from 'node:assert/strict';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { closeReasons } from '../close-reason.ts';
import { startSampleGateway } from '../control/gateway.samples.ts';

/** Far more than any step here takes. */
const WAIT_MS = 20_000;

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
