import assert from 'node:assert/strict';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { test } from 'node:test';
import { pino } from 'pino';
import { tempDir } from '../../testbed/temp-dir.ts';
import { parseProxyHeader } from '../wire/proxy-protocol.ts';
import { startDemoAgent } from './demo-agent.ts';
import { demoClusters } from './demo-clusters.ts';
import { DemoFolder } from './demo-folder.ts';
import { LOOPBACK, listenOn, type Place, placeOf } from './place.ts';

const [hub] = demoClusters;

test('startDemoAgent() marks connections with the cluster id, and takes any port where its own is taken', async t => {
  await using dir = await tempDir();
  using folder = DemoFolder.claim(dir.path, { pid: 1, isRunning: () => false });
  const gateway = await listenOn(createServer(), { host: LOOPBACK, port: 0 });
  t.after(() => gateway.close());
  const taken = await listenOn(createServer(), { host: hub.agentAddress, port: 0 });
  t.after(() => taken.close());
  await using agent = await startDemoAgent({
    cluster: hub,
    uplink: 'proxy',
    signer: undefined,
    gateway: placeOf(gateway),
    port: placeOf(taken).port,
    folder,
    log: pino({ level: 'silent' }),
    host: {
      cores: 8,
      openFiles: 1 << 20,
      platform: process.platform,
      arch: process.arch,
      node: process.version,
      version: '0.0.0',
      identity: 'test',
    },
  });
  assert.equal(agent.place.host, hub.agentAddress);
  assert.notEqual(agent.place.port, placeOf(taken).port);

  const [bytes] = await Promise.all([firstBytes(gateway), speak(agent.place)]);
  const header = parseProxyHeader(bytes, 0, bytes.length);
  assert.ok(header.kind === 'found');
  const reported = header.value.tlvs.map(({ type, value }) => [type, Buffer.from(value).toString()]);
  assert.deepEqual(reported, [[0x20, hub.id]]);
});

/** Health checks come and go without a byte. */
function firstBytes(server: Server): Promise<Buffer> {
  return new Promise(resolve => {
    server.on('connection', (socket: Socket) => {
      socket.on('error', () => {});
      socket.once('data', (bytes: Buffer) => {
        resolve(bytes);
        socket.destroy();
      });
    });
  });
}

async function speak({ host, port }: Place): Promise<void> {
  const client = connect({ host, port });
  client.on('error', () => {});
  client.write('hello');
  // Not once(): a reset, which is how the gateway may take its leave, would reject it.
  await new Promise(resolve => client.once('close', resolve));
}
