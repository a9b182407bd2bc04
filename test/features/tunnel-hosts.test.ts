// The gateway's `tunnel` through edits of the file: its names are added, removed, and exchanged with clusters' names.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { connect } from 'node:tls';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, hello, servedBy, until, visit } from './given.ts';

test('tunnel names follow the file, on every listener, regardless of `only`', async () => {
  await using dir = await tempDir();
  await using backend = await Backend.start({ name: 'backend' });
  await writeFile(dir.file('secret'), 'a secret for tests, of at least 32 bytes\n');
  const { certFile, keyFile } = await certificateFor('t.test', 'api.test');
  const ca = await readFile((await authority()).certFile);
  const config = (tunnel: readonly string[], api: readonly string[]) => `
listen: [{ on: "127.0.0.1:0", only: [api] }, { on: "127.0.0.2:0", only: [konnectivity] }]
identity: { secretFile: ${dir.file('secret')} }
${tunnel.length === 0 ? '' : `tunnel: { hosts: [${tunnel}], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }`}
clusters: [{ name: a, id: a-1, api: { hosts: [${api}], backends: ["${backend.text}"] } }]`;
  await using gateway = await startCauseway({ config: config(['t.test'], ['api.test']) });

  /** Whether a tunnel is accepted there, with our certificate. */
  const isTunnel = (servername: string, listener = 0) =>
    new Promise<boolean>(resolve => {
      const [host, port] = [`127.0.0.${listener + 1}`, gateway.ports[listener]];
      const socket = connect({ host, port, servername, ca, ALPNProtocols: ['causeway/1'] });
      socket.once('secureConnect', () => resolve(socket.alpnProtocol === 'causeway/1'));
      socket.on('error', () => resolve(false));
      socket.once('close', () => resolve(false));
      socket.unref();
    });
  const explained = async (host: string) => {
    const response = await fetch(`${gateway.admin}/api/v1/explain?host=${host}`);
    const { reason, cluster } = (await response.json()) as Record<string, unknown>;
    return [reason, cluster];
  };
  const served = (generation: number) =>
    until(`generation ${generation}`, async () => Number((await gateway.status()).generation) >= generation);

  assert.deepEqual([await isTunnel('t.test'), await isTunnel('t.test', 1)], [true, true]);
  assert.equal(await servedBy(gateway.port, hello('api.test')), 'backend');
  assert.deepEqual(
    [await explained('t.test'), await explained('api.test')],
    [
      [null, null],
      [null, 'a'],
    ],
  );

  await gateway.write(config(['api.test'], ['t.test']));
  await served(2);
  assert.deepEqual([await isTunnel('api.test'), await isTunnel('t.test', 1)], [true, false]);
  assert.equal(await servedBy(gateway.port, hello('t.test')), 'backend');

  await gateway.write(config([], ['t.test']));
  await served(3);
  assert.equal(await isTunnel('api.test'), false);
  const { received } = await visit(gateway.port, hello('api.test'));
  assert.equal(received.at(-1), 112);
  assert.deepEqual(await explained('api.test'), ['unknown-host', null]);

  await gateway.write(config(['"*.test"'], ['t.test']));
  await served(4);
  assert.deepEqual([await isTunnel('api.test'), await isTunnel('t.test')], [true, false]);
});
