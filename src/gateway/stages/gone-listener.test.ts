// Cases that need to end a worker, which feature tests cannot do from outside. The replacement does not know listeners
// that were closed before; connections of such listeners that return to it end cleanly.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as http2 from 'node:http2';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { closeReasons } from '../close-reason.ts';
import { type SampleGateway, startSampleGateway } from '../control/gateway.samples.ts';

const WAIT_MS = 10_000;

for (const engine of ['epoll', 'net'] as const) {
  test(`Gateway (${engine}): a stream whose listener a new worker never knew is revoked, and the worker survives`, async () => {
    const backend = net.createServer(socket => socket.on('error', () => {}).end('served'));
    await once(backend.listen(0, '127.0.0.1'), 'listening');
    const { port } = backend.address() as net.AddressInfo;
    const cluster = sampleCluster('a', { routes: [sampleRoute({ backends: [`127.0.0.1:${port}`] })] });
    const sample = await startSampleGateway(engine, {
      clusters: [cluster],
      listener: { agents: ['127.0.0.1/32'] },
    });
    const { gateway, config, deaths, records } = sample;
    try {
      const session = await connect(sample);
      assert.deepEqual([await ask(session), await ask(session)], [200, 200], 'one per worker');
      const other = { ...config.listeners[0], on: '127.0.0.2:0', host: '127.0.0.2' };
      await gateway.apply({ ...config, listeners: [other] });
      const holder = await workerOf(sample);
      gateway.killWorker(1 - holder);
      await until(() => deaths.length === 1);
      // Until the new worker has started, the other one serves the request.
      const statuses: number[] = [];
      const revoked = () => records.filter(({ reason }) => closeReasons[reason] === 'revoked');
      await until(async () => {
        statuses.push(await ask(session));
        gateway.takeRecords();
        return revoked().length > 0 || deaths.length > 1;
      });
      assert.deepEqual([statuses.at(-1), deaths.length], [503, 1]);
      const [{ on, client }] = revoked();
      assert.deepEqual([on, client.port], ['127.0.0.1:0', session.socket.localPort]);
      assert.deepEqual([await ask(session), await ask(session)].toSorted(), [200, 503]);
      assert.equal(deaths.length, 1);
      session.destroy();
      await until(() => gateway.connections === 0);
    } finally {
      await sample[Symbol.asyncDispose]();
      backend.close();
    }
  });
}

async function connect({ gateway }: SampleGateway): Promise<http2.ClientHttp2Session> {
  const session = http2.connect(`http://${gateway.listeners[0].address}`);
  session.on('error', () => {});
  await once(session, 'connect');
  return session;
}

async function ask(session: http2.ClientHttp2Session): Promise<number> {
  const stream = session.request({ ':method': 'CONNECT', ':authority': 'a:443' });
  const [headers] = (await once(stream, 'response')) as [http2.IncomingHttpHeaders];
  stream.close();
  return Number(headers[':status']);
}

/** The worker that has the client's own connection: the first number of a connection's id. */
async function workerOf({ gateway }: SampleGateway): Promise<number> {
  const open = await until(async () => {
    const all = await gateway.openConnections(10);
    return all.length === 1 ? all[0] : undefined;
  });
  return Number(open.id.split('-')[0]);
}

async function until<T>(ask: () => T | Promise<T>): Promise<NonNullable<T>> {
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const found = await ask();
    if (found) return found;
    assert.ok(performance.now() < deadline, `waited in vain for ${ask}`);
    await sleep(5);
  }
}
