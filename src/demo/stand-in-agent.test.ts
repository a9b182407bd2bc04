import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { parseProxyHeader } from '../wire/proxy-protocol.ts';
import { demoClusters } from './demo-clusters.ts';
import { LOOPBACK, listenOn, placeOf } from './place.ts';
import { startAgent } from './stand-in-agent.ts';

test('startAgent() puts the cluster id in front of what a client says, and passes both ends on', async t => {
  const gateway = await listenOn(createServer({ allowHalfOpen: true }), { host: LOOPBACK, port: 0 });
  t.after(() => gateway.close());
  const accepted = once(gateway, 'connection') as Promise<[Socket]>;
  const agent = await startAgent(demoClusters[1], placeOf(gateway));
  t.after(() => agent.close());

  const client = connect({ ...placeOf(agent), allowHalfOpen: true });
  client.end('hello');
  const [socket] = await accepted;
  const bytes = await allOf(socket);
  const header = parseProxyHeader(bytes, 0, bytes.length);
  assert.ok(header.kind === 'found');
  const [tlv] = header.value.tlvs;
  assert.deepEqual([tlv.type, Buffer.from(tlv.value).toString()], [0x20, demoClusters[1].id]);
  assert.equal(header.value.source?.port, client.localPort);
  assert.equal(bytes.toString('latin1', header.value.end), 'hello');

  socket.end('and back');
  assert.equal((await allOf(client)).toString(), 'and back');
});

/** What comes until FIN. Reading it as an iterable would close the other direction too. */
async function allOf(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(socket, 'end');
  return Buffer.concat(chunks);
}
