import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { createServer, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { authority, certificateFor } from '../../../testbed/certificates.ts';
import { missingPrograms } from '../../../testbed/packages.ts';
import { TlsWire } from './tls-wire.ts';

const skip = missingPrograms('openssl');
/** More than all buffers on the way hold. */
const BYTES = 8 * 1024 * 1024;

/** Both ends of a connection, the client's over a TlsWire. */
async function open(version: 'TLSv1.2' | 'TLSv1.3') {
  const { certFile, keyFile } = await certificateFor('a.test');
  const server = createServer({
    cert: await readFile(certFile),
    key: await readFile(keyFile),
    allowHalfOpen: true,
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const ca = await readFile((await authority()).certFile);
  const { port } = server.address() as AddressInfo;
  const raw = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  const wire = new TlsWire(raw);
  const versions = { minVersion: version, maxVersion: version } as const;
  const client = tlsConnect({ socket: wire, servername: 'a.test', ca, ...versions });
  const isTruncated = wire.watch(client);
  client.on('error', () => {});
  const [accepted] = (await once(server, 'connection')) as [Socket];
  const [peer] = (await once(server, 'secureConnection')) as [TLSSocket];
  peer.on('error', () => {});
  return {
    client,
    peer,
    isTruncated,
    reset: () => accepted.resetAndDestroy(),
    /** FIN, and no word of it inside the TLS, behind what was written. */
    endBare: () => peer.write('', () => accepted.end()),
    [Symbol.dispose]() {
      accepted.destroy();
      raw.destroy();
      server.close();
    },
  };
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
  for (const reader of ['quick', 'slow'] as const) {
    test(`TlsWire tells a close_notify from a bare FIN behind ${version}, to a ${reader} reader`, {
      skip,
    }, async () => {
      for (const isBare of [false, true]) {
        using ends = await open(version);
        let heard = 0;
        const count = (chunk: Buffer) => {
          heard += chunk.length;
        };
        if (reader === 'quick') ends.client.on('data', count);
        ends.peer.write(Buffer.alloc(BYTES));
        if (isBare) ends.endBare();
        else ends.peer.end();
        if (reader === 'slow') {
          await new Promise(resolve => setTimeout(resolve, 200));
          ends.client.on('data', count);
        }
        await once(ends.client, 'end');
        assert.deepEqual([heard, ends.isTruncated()], [BYTES, isBare]);
      }
    });
  }
}

test('TlsWire leaves the other direction open at FIN, and writes what is left at the end', {
  skip,
}, async () => {
  using ends = await open('TLSv1.3');
  ends.client.resume();
  ends.peer.end();
  await once(ends.client, 'end');
  ends.client.end(Buffer.alloc(BYTES));
  let heard = 0;
  ends.peer.on('data', (chunk: Buffer) => {
    heard += chunk.length;
  });
  await once(ends.peer, 'end');
  assert.equal(heard, BYTES);
  if (!ends.client.closed) await once(ends.client, 'close');
});

test('TlsWire passes a reset on as an error', { skip }, async () => {
  using ends = await open('TLSv1.3');
  ends.client.resume();
  ends.reset();
  const [error] = (await once(ends.client, 'error')) as [NodeJS.ErrnoException];
  assert.equal(error.code, 'ECONNRESET');
});
