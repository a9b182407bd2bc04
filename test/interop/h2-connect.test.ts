// CONNECT over HTTP/2 by third-party clients: Go's HTTP/2, which the Kubernetes programs use, and curl's.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { curlClient } from '../../testbed/curl-client.ts';
import { freePort } from '../../testbed/free-port.ts';
import { goH2Connect } from '../../testbed/go-h2-connect.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';

const KUBERMATIC = 'apiserver-external.cluster-x.svc.cluster.local';

let echo: Server;
let gateway: Causeway;
let connect: string;
const skip = missingPrograms('go');
const stack = new AsyncDisposableStack();

before(async () => {
  echo = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  echo.listen(0, '127.0.0.1');
  await once(echo, 'listening');
  stack.defer(() => void echo.close());
  const { port } = echo.address() as { port: number };
  gateway = stack.use(
    await startCauseway({
      config: `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
clusters:
  - { name: echo, id: id-1, api: { connect: [${KUBERMATIC}], backends: ["127.0.0.1:${port}"] } }
  - { name: down, api: { backends: ["127.0.0.1:${await freePort()}"] } }
`,
    }),
  );
  connect = `127.0.0.1:${gateway.port}`;
});

after(() => stack.disposeAsync());

test("Go's HTTP/2 connects by Kubermatic's name and by Gardener's header", { skip }, async () => {
  for (const options of [
    { authority: `${KUBERMATIC}:443` },
    { authority: 'any:443', gardener: `outbound|443||${KUBERMATIC}` },
  ]) {
    const { streams } = await goH2Connect({ connect, ...options, size: 1_000_000 });
    const [stream] = streams;
    assert.deepEqual([stream.status, stream.error, stream.receivedBytes], [200, '', 1_000_000]);
    assert.equal(stream.receivedSha256, stream.sentSha256);
  }
});

test('a hundred streams of Go over one connection, 1 MB each way on each', { skip }, async () => {
  const { connections, streams } = await goH2Connect({
    connect,
    authority: `${KUBERMATIC}:443`,
    streams: 100,
    size: 1_000_000,
  });
  assert.equal(connections, 1);
  for (const stream of streams) {
    assert.deepEqual([stream.status, stream.error, stream.receivedBytes], [200, '', 1_000_000]);
    assert.equal(stream.receivedSha256, stream.sentSha256);
  }
});

test('100 MB each way over one stream of Go', { skip }, async () => {
  const { streams } = await goH2Connect({ connect, authority: 'id-1:443', size: 100_000_000 });
  const [stream] = streams;
  assert.deepEqual([stream.status, stream.error, stream.receivedBytes], [200, '', 100_000_000]);
  assert.equal(stream.receivedSha256, stream.sentSha256);
});

test('Go gets the status and message of a refusal', { skip }, async () => {
  const unknown = await goH2Connect({ connect, authority: 'nobody:443' });
  assert.equal(unknown.streams[0].status, 404);
  assert.match(unknown.streams[0].answer, /^unknown-host: /);
  const down = await goH2Connect({ connect, authority: 'down:443' });
  assert.equal(down.streams[0].status, 502);
  assert.match(down.streams[0].answer, /^connect-failed: /);
  const get = await goH2Connect({ connect, authority: 'echo', method: 'GET' });
  assert.match(get.streams[0].error, /HTTP_1_1_REQUIRED/);
});

test('curl retries over HTTP/1.1 on HTTP_1_1_REQUIRED', { skip: missingPrograms('curl') }, async () => {
  const { status, printed } = await curlClient({
    url: `http://nobody.test:${gateway.port}/`,
    connect,
    flags: ['--http2-prior-knowledge', '--verbose'],
  });
  assert.match(printed, /HTTP_1_1_REQUIRED/, printed);
  assert.equal(status, 421);
});
