// `causeway top` without a terminal: everything once, as text or JSON, and its messages if there is nothing.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { Backend, hello, servedBy, visit } from './given.ts';

let gateway: Causeway;
const stack = new AsyncDisposableStack();

before(async () => {
  const backend = stack.use(await Backend.start({ name: 'backend' }));
  gateway = stack.use(
    await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
workers: 1
clusters:
  - { name: lab, api: { hosts: [api.lab.test], backends: ["${backend.text}"] } }
  - { name: closed, allow: [], api: { hosts: [api.closed.test], backends: ["${backend.text}"] } }
`,
    }),
  );
  await servedBy(gateway.port, hello('api.lab.test'));
  await visit(gateway.port, hello('api.closed.test'));
  await visit(gateway.port, hello('unknown.test'));
});

after(() => stack.disposeAsync());

async function top(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const { code, stdout, stderr } = await run(causewayBin, ['top', ...args]);
  return { code, out: String(stdout), err: stderr };
}

test('prints everything once where there is no terminal', async () => {
  const { code, out, err } = await top('--admin', gateway.admin);
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^causeway \d+\.\d+\.\d+ {2}(epoll|net|haproxy), 1 worker, up /);
  assert.match(out, /^0 open, \d\.\d new\/s, in \d+ B\/s, out \d+ B\/s; 2 clusters, 2 routes$/m);
  assert.match(out, /^refused in 5 min: (unknown-host 1, not-allowed 1|not-allowed 1, unknown-host 1)$/m);
  assert.match(out, /^lab +api +0 +\d\.\d +\d+ B\/s +\d+ B\/s +1\/1$/m);
  assert.match(out, /^closed +api +0 .* 1\/1 +not-allowed 1$/m);
  assert.ok(!out.includes('\x1b'), 'no escape sequences in a pipe');
});

test('prints figures for other programs with --json', async () => {
  const { code, out } = await top('--json', '--sort', 'name', '--admin', gateway.admin);
  assert.equal(code, 0);
  const { total, clusters, problems } = JSON.parse(out);
  assert.deepEqual([total.open, total.refused], [0, { 'unknown-host': 1, 'not-allowed': 1 }]);
  assert.ok(total.newPerSecond > 0);
  assert.deepEqual(
    clusters.map(({ name, refused }: { name: string; refused: object }) => [name, refused]),
    [
      ['closed', { 'not-allowed': 1 }],
      ['lab', {}],
    ],
  );
  assert.deepEqual(problems, []);
  const { out: none } = await top('--json', '--problems', '--admin', gateway.admin);
  assert.deepEqual(JSON.parse(none).clusters, []);
});

test('shows one cluster, and names the nearest for one that is not there', async () => {
  const one = await top('--cluster', 'lab', '--admin', gateway.admin);
  assert.doesNotMatch(one.out, /^closed/m);
  assert.deepEqual(await top('--cluster', 'lba', '--admin', gateway.admin), {
    code: 1,
    out: '',
    err: "causeway: Unknown cluster 'lba'. Did you mean 'lab'?\n",
  });
});

test('says that nothing listens, in the words of status', async () => {
  const admin = `http://127.0.0.1:${await freePort()}`;
  const { code, out, err } = await top('--admin', admin);
  assert.deepEqual([code, out], [1, '']);
  assert.equal(
    err,
    `causeway: Nothing listens on ${admin}. Is causeway running, and is that its admin.on? Use --admin URL for another address\n`,
  );
});

test('says that what answers there is no gateway', async () => {
  const server = createServer((_, response) => void response.end('{}')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const admin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const command of ['top', 'status']) {
    const { code, stderr } = await run(causewayBin, [command, '--admin', admin]);
    assert.deepEqual([code, stderr], [1, `causeway: ${admin} answers, but is not a Causeway admin API\n`]);
  }
  server.close();
});

test('refuses an unknown order', async () => {
  const { code, err } = await top('--sort', 'size');
  assert.equal(code, 64);
  assert.match(
    err,
    /^causeway: --sort must be one of open, new, traffic, in, out, refused, down, name: size$/m,
  );
});
