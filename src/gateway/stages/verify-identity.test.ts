// Cases that need to end a worker or fill the nonce table, which feature tests cannot do from outside. A worker's
// replacement knows the nonces that were spent and the secrets that changed meanwhile; and a cluster that floods the
// gateway with signatures of its own is the only one refused.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as net from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { clusterKey } from '../../identity/cluster-key.ts';
import { sign } from '../../identity/sign.ts';
import { helloMessage, inRecords } from '../../wire/hello.samples.ts';
import { buildProxyV2 } from '../../wire/proxy-protocol.ts';
import { SIGNATURE_TLV } from '../../wire/signature.ts';
import { closeReasons } from '../close-reason.ts';
import { startSampleGateway } from '../control/gateway.samples.ts';
import type { Gateway } from '../control/gateway.ts';
import { signatureFaults } from './signature-fault.ts';

const FIRST = Buffer.from('the first secret, of at least 32 bytes');
const SECOND = Buffer.from('the second secret, of at least 32 bytes');
const ACCESS_DENIED = 49;

function signedHello(secret: Uint8Array, id = 'id-a'): Buffer {
  const signature = sign(clusterKey(secret, id), { id });
  const tlvs = [
    { type: 0x20, value: Buffer.from(id) },
    { type: SIGNATURE_TLV, value: signature },
  ];
  return Buffer.concat([buildProxyV2({ tlvs }), inRecords(helloMessage({ extensions: [] }))]);
}

for (const engine of ['epoll', 'net'] as const) {
  test(`Gateway (${engine}): a restarted worker knows the spent nonces and the current secrets`, async () => {
    await using backend = await startBackend();
    const cluster = sampleCluster('a', {
      id: 'id-a',
      identityRequired: true,
      routes: [sampleRoute({ hosts: [], backends: [`127.0.0.1:${backend.port}`] })],
    });
    const sample = await startSampleGateway(engine, {
      clusters: [cluster],
      workers: 1,
      listener: { agents: ['127.0.0.1/32'], idTlv: [0x20] },
      settings: { secrets: [FIRST] },
    });
    const { gateway, records, deaths } = sample;
    try {
      const first = signedHello(FIRST);
      assert.equal(await visit(gateway, first), 'served');
      await gateway.useSecrets([SECOND, FIRST]);
      const second = signedHello(SECOND);
      assert.equal(await visit(gateway, second), 'served');
      gateway.killWorker(0);
      while (deaths.length === 0) await sleep(5);
      for (const used of [first, second]) assert.equal(await visit(gateway, used), ACCESS_DENIED);
      assert.equal(await visit(gateway, signedHello(SECOND)), 'served');
      await gateway.useSecrets([SECOND]);
      assert.equal(await visit(gateway, signedHello(FIRST)), ACCESS_DENIED);
      gateway.takeRecords();
      const refused = records.filter(({ reason }) => closeReasons[reason] === 'bad-signature');
      assert.deepEqual(
        refused.map(({ detail }) => signatureFaults[detail]),
        ['replayed', 'replayed', 'wrong'],
      );
    } finally {
      await sample[Symbol.asyncDispose]();
    }
  });
}

for (const engine of ['epoll', 'net'] as const) {
  test(`Gateway (${engine}): a cluster that floods it with signatures is the only one refused, and no nonce is forgotten`, async () => {
    await using backend = await startBackend();
    const clusters = ['a', 'b'].map(name =>
      sampleCluster(name, {
        id: `id-${name}`,
        identityRequired: true,
        routes: [sampleRoute({ hosts: [], backends: [`127.0.0.1:${backend.port}`] })],
      }),
    );
    await using sample = await startSampleGateway(engine, {
      clusters,
      listener: { agents: ['127.0.0.1/32'], idTlv: [0x20] },
      settings: { secrets: [FIRST] },
      nonces: 300,
    });
    const { gateway, records } = sample;
    const flood = Array.from({ length: 300 }, () => signedHello(FIRST));
    const answers = await inGroups(flood, bytes => visit(gateway, bytes));
    const served = flood.filter((_, index) => answers[index] === 'served');
    // Two thirds of the shared room; two workers may check at the same moment.
    assert.ok(served.length > 120 && served.length < 150, `${served.length} of a were served`);
    assert.ok(answers.every(answer => answer === 'served' || answer === ACCESS_DENIED));
    const others = Array.from({ length: 50 }, () => signedHello(FIRST, 'id-b'));
    for (const answer of await inGroups(others, bytes => visit(gateway, bytes)))
      assert.equal(answer, 'served');
    for (const answer of await inGroups([...served, ...others], bytes => visit(gateway, bytes)))
      assert.equal(answer, ACCESS_DENIED);
    gateway.takeRecords();
    const faults = records
      .filter(({ reason }) => closeReasons[reason] === 'bad-signature')
      .map(({ detail, clusterId, route }) => `${signatureFaults[detail]} ${clusterId} ${route?.cluster}`);
    const count = (fault: string) => faults.filter(one => one === fault).length;
    assert.equal(count('share-used-up id-a a'), flood.length - served.length);
    assert.equal(count('replayed id-a undefined'), served.length);
    assert.equal(count('replayed id-b undefined'), others.length);
    assert.equal(faults.length, flood.length + others.length);
  });
}

async function startBackend() {
  // It reads what it is sent: a socket that nobody reads does not see that its peer is gone, and keeps the process alive.
  const server = net.createServer(socket =>
    socket
      .on('error', () => {})
      .resume()
      .end('served'),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  return { port, [Symbol.asyncDispose]: async () => void server.close() };
}

/** In groups large enough for workers to collide. */
async function inGroups<T, U>(all: readonly T[], each: (one: T) => Promise<U>): Promise<U[]> {
  const results: U[] = [];
  while (results.length < all.length)
    results.push(...(await Promise.all(all.slice(results.length, results.length + 20).map(each))));
  return results;
}

/** The client's result: the backend's text, or the code of an alert. Retries while nothing listens or it is cut off. */
async function visit(gateway: Gateway, bytes: Buffer): Promise<string | number> {
  const port = Number(gateway.listeners[0].address.split(':').at(-1));
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    const answers = await new Promise<Buffer | undefined>(resolve => {
      socket.once('connect', () => socket.write(bytes));
      socket.once('data', resolve);
      socket.once('error', () => resolve(undefined));
      socket.once('close', () => resolve(undefined));
    });
    socket.destroy();
    if (answers !== undefined) return answers[0] === 0x15 ? answers[6] : answers.toString();
    await sleep(20);
  }
}
