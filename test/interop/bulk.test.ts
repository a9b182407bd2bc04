// A long transfer while the file changes under it: 1 GiB each way at once through TLS, with a new table every 200 ms.
// Open connections are not affected by what is added, removed or changed beside them.

import assert from 'node:assert/strict';
import { rename, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setInterval as every } from 'node:timers/promises';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { bulkClient, startBulkServer } from '../../testbed/go-peer.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { until } from '../features/given.ts';

const HOST = 'bulk.test';
const GIB = 2 ** 30;
const RELOAD_MS = 200;
/** It takes about ten seconds; this is for a busy machine. */
const TRANSFER_MS = 480_000;

test('1 GiB each way at once arrives unchanged, with a reload every 200 ms', {
  skip: missingPrograms('openssl', 'go'),
  timeout: TRANSFER_MS + 60_000,
}, async context => {
  const { certFile: ca } = await authority();
  await using server = await startBulkServer({ ...(await certificateFor(HOST)), bytes: GIB, seed: 1 });
  const config = (number: number) => fileOf(server.port, number);
  await using gateway = await startCauseway({ config: config(0) });

  const over = new AbortController();
  const reloading = reload(gateway, config, over.signal);
  const started = performance.now();
  const near = await bulkClient({
    connect: `127.0.0.1:${gateway.port}`,
    serverName: HOST,
    ca,
    bytes: GIB,
    seed: 2,
    timeoutMs: TRANSFER_MS,
  });
  const seconds = (performance.now() - started) / 1000;
  over.abort();
  const written = await reloading;

  assert.deepEqual([near.error, near.sentBytes, near.receivedBytes], ['', GIB, GIB]);
  await until('the report of the far end', () => server.reports().length > 0);
  const [far] = server.reports();
  assert.deepEqual([far.error, far.sentBytes, far.receivedBytes], ['', GIB, GIB]);
  assert.equal(far.receivedSha256, near.sentSha256);
  assert.equal(near.receivedSha256, far.sentSha256);
  assert.notEqual(near.sentSha256, far.sentSha256);

  const line = await gateway.line(entry => entry.msg === 'connection' && entry.host === HOST);
  assert.deepEqual([line.cluster, line.route, line.reason], ['bulk', 'api', 'done']);
  // The same bytes in TLS records.
  const [bytesIn, bytesOut] = [Number(line.in), Number(line.out)];
  for (const bytes of [bytesIn, bytesOut]) assert.ok(bytes > GIB && bytes < GIB * 1.05, `${bytes} bytes`);
  const labels = { cluster: 'bulk', route: 'api' };
  assert.equal(await gateway.metric('causeway_bytes_total', { ...labels, direction: 'in' }), bytesIn);
  assert.equal(await gateway.metric('causeway_bytes_total', { ...labels, direction: 'out' }), bytesOut);
  assert.equal(await gateway.metric('causeway_connections_total', { ...labels, reason: 'done' }), 1);

  // A change during a reload is applied together with the next one.
  const count = (message: string) => gateway.lines().filter(entry => entry.msg === message).length;
  const applied = count('applied');
  context.diagnostic(`${seconds.toFixed(1)} s, ${written} changes of the file, ${applied} tables applied`);
  assert.ok(applied >= 3, `${applied} of ${written} changes were applied in ${seconds} s`);
  assert.equal(count('file refused; keeping the previous configuration'), 0);
});

/** Writes the next file periodically. Returns the number of files. */
async function reload(
  gateway: Causeway,
  config: (number: number) => string,
  signal: AbortSignal,
): Promise<number> {
  let written = 0;
  try {
    for await (const _ of every(RELOAD_MS, undefined, { signal })) {
      // By rename, so that it is never read incomplete.
      await writeFile(`${gateway.file}.next`, config(++written));
      await rename(`${gateway.file}.next`, gateway.file);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return written;
}

/** No health checks: the server would count one as a transfer. Each file changes a cluster and a route. */
function fileOf(port: number, number: number): string {
  const guest = `
  - { name: guest-${number}, id: guest-${number}, api: { hosts: [guest.test], backends: ["127.0.0.1:9"] } }`;
  return `
admin: { on: "127.0.0.1:0" }
listen: ["127.0.0.1:0"]
clusters:${number % 2 === 0 ? '' : guest}
  - name: bulk
    api: { hosts: [${HOST}], backends: ["127.0.0.1:${port}"], health: { check: none } }
    konnectivity: { hosts: [konnectivity.bulk.test], backends: ["127.0.0.1:${10_000 + number}"] }
`;
}
