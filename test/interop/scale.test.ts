// 10,000 clusters in one file: it is checked and served, a change is applied, and the times are printed. The
// benchmark judges them, not this test.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { goClient } from '../../testbed/go-client.ts';
import { type GoServer, startGoServer } from '../../testbed/go-peer.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

const CLUSTERS = 10_000;
const PING = 'ping\n';

describe(`${CLUSTERS} clusters`, { skip: missingPrograms('openssl', 'go') }, () => {
  const stack = new AsyncDisposableStack();
  let backend: GoServer;
  let ca: string;
  let config: string;
  let gateway: Causeway;
  let readyMs: number;

  before(async () => {
    ({ certFile: ca } = await authority());
    backend = stack.use(await startGoServer(await certificateFor('*.clusters.test')));
    const clusters = Array.from({ length: CLUSTERS }, (_, number) => clusterOf(number, backend.port));
    config = `listen: ["127.0.0.1:0"]\nclusters:\n${clusters.join('\n')}\n`;
    const started = performance.now();
    gateway = stack.use(await startCauseway({ config }));
    readyMs = performance.now() - started;
  });

  after(() => stack.disposeAsync());

  /** Connects to that cluster's API. Returns the cluster in the log, or the alert. */
  async function visit(number: number): Promise<unknown> {
    const serverName = `api-${number}.clusters.test`;
    const connect = `127.0.0.1:${gateway.port}`;
    const report = await goClient({ connect, serverName, ca, input: PING, answerBytes: PING.length });
    if (report.alert !== undefined) return report.alert;
    assert.equal(report.answer.toString(), PING, report.error);
    const served = await gateway.line(entry => entry.host === serverName && entry.cluster !== null);
    return served.cluster;
  }

  test('are ready', async context => {
    const { counts, health } = (await gateway.status()) as {
      counts: { clusters: number; hosts: number };
      health: { backends: number; down: number; stretch: number };
    };
    assert.deepEqual([counts.clusters, counts.hosts], [CLUSTERS, 3 * CLUSTERS]);
    assert.deepEqual([health.backends, health.down], [2 * CLUSTERS, 0]);
    context.diagnostic(`ready after ${(readyMs / 1000).toFixed(1)} s, ${await residentMib(gateway)} MiB`);
  });

  for (const number of [0, CLUSTERS / 2, CLUSTERS - 1]) {
    test(`serve number ${number}`, async () => {
      assert.equal(await visit(number), `cluster-${number}`);
    });
  }

  test('get one more by an edit of the file', async context => {
    assert.equal(await visit(CLUSTERS), 112);
    const started = performance.now();
    await gateway.write(`${config}${clusterOf(CLUSTERS, backend.port)}\n`);
    await gateway.line(entry => entry.msg === 'applied');
    const ms = performance.now() - started;
    assert.equal(await visit(CLUSTERS), `cluster-${CLUSTERS}`);
    assert.equal(await visit(0), 'cluster-0');
    context.diagnostic(`served after ${(ms / 1000).toFixed(1)} s, ${await residentMib(gateway)} MiB`);
  });

  test('are checked', async context => {
    await using dir = await tempDir();
    const file = dir.file('causeway.yaml');
    await writeFile(file, config);
    const started = performance.now();
    const { code, stdout, stderr } = await run(causewayBin, ['check', '-c', file]);
    assert.equal(code, 0, stderr);
    assert.match(`${stdout}${stderr}`, /ok: 10000 clusters, 20000 routes, 30000 hosts/);
    context.diagnostic(`checked in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  });
});

/** Two routes and three hosts each, in block style. */
function clusterOf(number: number, port: number): string {
  return `  - name: cluster-${number}
    id: id-${number}
    allow: [127.0.0.0/8, 10.0.0.0/8]
    api:
      hosts: [api-${number}.clusters.test, "*.apps-${number}.clusters.test"]
      backends: ["127.0.0.1:${port}"]
      health: { check: tcp }
    konnectivity:
      hosts: [konnectivity-${number}.clusters.test]
      backends: ["127.0.0.1:${port}"]`;
}

async function residentMib({ program }: Causeway): Promise<number> {
  const status = await readFile(`/proc/${program.pid}/status`, 'utf8').catch(() => '');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1024);
}
