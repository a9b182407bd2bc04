// What the features cannot do from outside: end a worker. A signature that one worker took is known to the one that
// takes its place, and so are secrets that changed meanwhile.

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

function said(secret: Uint8Array): Buffer {
  const signature = sign(clusterKey(secret, 'id-a'), { id: 'id-a' });
  const tlvs = [
    { type: 0x20, value: Buffer.from('id-a') },
    { type: SIGNATURE_TLV, value: signature },
  ];
  return Buffer.concat([buildProxyV2({ tlvs }), inRecords(helloMessage({ extensions: [] }))]);
}

for (const engine of ['epoll', 'net'] as const) {
  test(`Gateway (${engine}): a worker that starts anew knows the used nonces and the secrets of today`, async () => {
    const backend = net.createServer(socket => socket.on('error', () => {}).end('served'));
    backend.listen(0, '127.0.0.1');
    await once(backend, 'listening');
    const { port } = backend.address() as net.AddressInfo;
    const cluster = sampleCluster('a', {
      id: 'id-a',
      identityRequired: true,
      routes: [sampleRoute({ hosts: [], backends: [`127.0.0.1:${port}`] })],
    });
    const sample = await startSampleGateway(engine, {
      clusters: [cluster],
      workers: 1,
      listener: { agents: ['127.0.0.1/32'], idTlv: [0x20] },
      settings: { secrets: [FIRST] },
    });
    const { gateway, records, deaths } = sample;
    try {
      const first = said(FIRST);
      assert.equal(await visit(gateway, first), 'served');
      await gateway.useSecrets([SECOND, FIRST]);
      const second = said(SECOND);
      assert.equal(await visit(gateway, second), 'served');
      gateway.killWorker(0);
      while (deaths.length === 0) await sleep(5);
      for (const used of [first, second]) assert.equal(await visit(gateway, used), ACCESS_DENIED);
      assert.equal(await visit(gateway, said(SECOND)), 'served');
      await gateway.useSecrets([SECOND]);
      assert.equal(await visit(gateway, said(FIRST)), ACCESS_DENIED);
      gateway.takeRecords();
      const refused = records.filter(({ reason }) => closeReasons[reason] === 'bad-signature');
      assert.deepEqual(
        refused.map(({ detail }) => signatureFaults[detail]),
        ['replayed', 'replayed', 'wrong'],
      );
    } finally {
      await sample[Symbol.asyncDispose]();
      backend.close();
    }
  });
}

/** What the client hears: the backend, or the code of an alert. Tries again while nobody listens or it is cut. */
async function visit(gateway: Gateway, bytes: Buffer): Promise<string | number> {
  const port = Number(gateway.listeners[0].address.split(':').at(-1));
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    const heard = await new Promise<Buffer | undefined>(resolve => {
      socket.once('connect', () => socket.write(bytes));
      socket.once('data', resolve);
      socket.once('error', () => resolve(undefined));
      socket.once('close', () => resolve(undefined));
    });
    socket.destroy();
    if (heard !== undefined) return heard[0] === 0x15 ? heard[6] : heard.toString();
    await sleep(20);
  }
}
