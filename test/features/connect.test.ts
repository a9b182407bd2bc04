// CONNECT: a name selects a route, which is admitted and dialled before the 200. Only configured backends are
// ever dialled, whatever the request contains.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { Backend, bytes, connectClient, hello, lineOf, startBlackHole, visit } from './given.ts';

const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n';
const STRANGER = '127.0.0.9';

let api: Backend;
let konnectivity: Backend;
/** Listens, but is not configured. */
let foreign: Backend;
let gateway: Causeway;
const stack = new AsyncDisposableStack();

before(async () => {
  api = stack.use(await Backend.start({ name: 'api' }));
  konnectivity = stack.use(await Backend.start({ name: 'konnectivity' }));
  foreign = stack.use(await Backend.start({ name: 'foreign' }));
  const hole = stack.use(await startBlackHole());
  const closed = await freePort();
  gateway = stack.use(
    await startCauseway({
      config: `
listen:
  - { on: "127.0.0.1:0", agents: [127.0.0.1/32] }
  - { on: "127.0.0.2:0", agents: [127.0.0.1/32], only: [konnectivity] }
timeouts: { connect: 200ms }
clusters:
  - name: lab
    id: Lab-1
    api:
      hosts: [api.lab.test, "*.api.lab.test"]
      connect: [apiserver-external.lab.svc.cluster.local]
      backends: ["${api.text}"]
    konnectivity:
      hosts: [konnectivity.lab.test]
      connect: [konnectivity.lab.svc.cluster.local]
      backends: ["${konnectivity.text}"]
  - { name: half, api: { backends: ["127.0.0.1:${closed}", "${api.text}"], balance: round-robin } }
  - { name: denied, allow: [10.0.0.0/8], api: { backends: ["${api.text}"] } }
  - { name: full, limits: { newPerSecond: 1 }, api: { backends: ["${api.text}"] } }
  - { name: empty, api: { backends: [] } }
  - { name: refusing, api: { backends: ["127.0.0.1:${closed}"] } }
  - { name: swallowing, api: { backends: ["127.0.0.1:${hole.port}"] } }
`,
    }),
  );
});

after(() => stack.disposeAsync());

describe('CONNECT is served', { concurrency: true }, () => {
  const gardener = 'X-Gardener-Destination: outbound|443||apiserver-external.lab.svc.cluster.local';
  const served: readonly (readonly [by: string, head: string, backend: string])[] = [
    ['an id', 'CONNECT Lab-1:6443 HTTP/1.1', 'api'],
    ['an id in other letters', 'CONNECT lab-1:6443 HTTP/1.1', 'api'],
    ['a cluster name', 'CONNECT lab:443 HTTP/1.1', 'api'],
    ['an API host', 'CONNECT api.lab.test:443 HTTP/1.1', 'api'],
    ['an API host in capitals with a final dot', 'CONNECT API.lab.test.:443 HTTP/1.1', 'api'],
    ['an API host under a wildcard', 'CONNECT a.api.lab.test:443 HTTP/1.1', 'api'],
    ['a connect name', 'CONNECT apiserver-external.lab.svc.cluster.local:443 HTTP/1.1', 'api'],
    [
      'a connect name of another route',
      'CONNECT konnectivity.lab.svc.cluster.local:8132 HTTP/1.1',
      'konnectivity',
    ],
    ['any port', 'CONNECT lab:1 HTTP/1.1', 'api'],
    ['no port', 'CONNECT lab HTTP/1.1', 'api'],
    ['HTTP/1.0', 'CONNECT lab:443 HTTP/1.0', 'api'],
    ["Gardener's header", `CONNECT anything.at.all:443 HTTP/1.1\r\n${gardener}`, 'api'],
    [
      "Gardener's header before the authority",
      `CONNECT nobody:443 HTTP/1.0\r\n${gardener.toLowerCase()}`,
      'api',
    ],
    [
      'further headers',
      'CONNECT lab:443 HTTP/1.1\r\nHost: else.test\r\nProxy-Authorization: Basic eA==',
      'api',
    ],
  ];
  for (const [by, head, backend] of served) {
    test(`by ${by}`, async () => {
      using client = await connectClient(gateway.port);
      client.send(`${head}\r\n\r\n`);
      await client.receives(`${backend}\n`);
      client.finish();
      assert.equal(await client.untilEnd(), 'FIN');
      assert.deepEqual(client.received(), bytes(ESTABLISHED, `${backend}\n`));
      const { reason, protocol, cluster, clusterId, route, out } = await lineOf(gateway, client);
      assert.deepEqual([reason, protocol, cluster, route], ['done', 'connect', 'lab', backend]);
      assert.equal(clusterId, by.startsWith('an id') ? 'Lab-1' : null);
      assert.equal(out, client.received().length);
    });
  }
});

describe('CONNECT is refused', { concurrency: true }, () => {
  const refused: readonly (readonly [
    when: string,
    head: string,
    status: number,
    reason: string,
    from?: string,
  ])[] = [
    ['nobody has the name', 'CONNECT nobody.test:443 HTTP/1.1', 404, 'unknown-host'],
    ['the host is not an API host', 'CONNECT konnectivity.lab.test:443 HTTP/1.1', 404, 'unknown-host'],
    ['it is from a stranger', 'CONNECT lab:443 HTTP/1.1', 403, 'untrusted-agent', STRANGER],
    ['it is from a stranger and malformed', 'CONNECT a b HTTP/1.1', 403, 'untrusted-agent', STRANGER],
    ['the client is not allowed', 'CONNECT denied:443 HTTP/1.1', 403, 'not-allowed'],
    ['the pool is empty', 'CONNECT empty:443 HTTP/1.1', 503, 'no-backend'],
    ['the backend refuses', 'CONNECT refusing:443 HTTP/1.1', 502, 'connect-failed'],
    ['the backend does not answer', 'CONNECT swallowing:443 HTTP/1.1', 504, 'connect-timeout'],
    ['the authority is a URL', 'CONNECT http://lab/ HTTP/1.1', 400, 'bad-request'],
    ['the authority is empty', 'CONNECT  HTTP/1.1', 400, 'bad-request'],
    ['the port is none', 'CONNECT lab:70000 HTTP/1.1', 400, 'bad-request'],
    ['the version is none of ours', 'CONNECT lab:443 HTTP/3.0', 400, 'bad-request'],
    ['a header line is folded', 'CONNECT lab:443 HTTP/1.1\r\nA: b\r\n c', 400, 'bad-request'],
    [
      "Gardener's header is malformed",
      'CONNECT lab:443 HTTP/1.1\r\nX-Gardener-Destination: lab',
      400,
      'bad-request',
    ],
  ];
  for (const [when, head, status, reason, from] of refused) {
    test(`with ${status} when ${when}`, async () => {
      const { received, end, address, since } = await visit(
        gateway.port,
        `${head}\r\n\r\n`,
        from === undefined ? {} : { from },
      );
      assert.equal(end, 'FIN');
      assert.match(
        received.toString(),
        new RegExp(`^HTTP/1\\.1 ${status} .*\\r\\n\\r\\n${reason}: .*\\n$`, 's'),
      );
      assert.equal((await lineOf(gateway, { address, since })).reason, reason);
    });
  }

  test('with 503 over the limit', async () => {
    const answers = await Promise.all(
      Array.from({ length: 3 }, async () => {
        using client = await connectClient(gateway.port);
        client.send('CONNECT full:443 HTTP/1.1\r\n\r\n');
        return (await client.receives('\r\n\r\n')).toString();
      }),
    );
    assert.ok(answers.some(answer => answer.startsWith('HTTP/1.1 200 ')));
    assert.ok(answers.some(answer => /^HTTP\/1\.1 503 .*\r\n\r\nover-limit: /s.test(answer)));
  });

  test('with 404 if the listener does not serve the route', async () => {
    const { received } = await visit(gateway.ports[1], 'CONNECT lab:443 HTTP/1.1\r\n\r\n', {
      to: '127.0.0.2',
      from: '127.0.0.1',
    });
    assert.match(received.toString(), /^HTTP\/1\.1 404 /);
  });
});

test('bytes after the head in the same segment reach the backend, and the head does not', async () => {
  const before = api.connections.length;
  using client = await connectClient(gateway.port);
  const early = bytes(hello('whatever.test'), 'CONNECT lab:443 HTTP/1.1\r\n\r\n');
  client.send('CONNECT lab:443 HTTP/1.1\r\n\r\n', early);
  const served = await api.accepted(before);
  assert.deepEqual(await served.receives(early.length), early);
  assert.equal((await client.receives('api\n')).toString(), `${ESTABLISHED}api\n`);
});

test('a head may arrive in single bytes', async () => {
  const before = konnectivity.connections.length;
  using client = await connectClient(gateway.port);
  await client.drip(bytes('CONNECT konnectivity.lab.svc.cluster.local:8132 HTTP/1.1\r\nHost: x\r\n\r\n'));
  client.send('the first bytes');
  const served = await konnectivity.accepted(before);
  assert.equal((await served.receives('the first bytes')).toString(), 'the first bytes');
});

test('the 200 is sent once a backend is connected, even the second one', async () => {
  for (let turn = 0; turn < 2; turn++) {
    using client = await connectClient(gateway.port);
    client.send('CONNECT half:443 HTTP/1.1\r\n\r\n');
    assert.equal((await client.receives('api\n')).toString(), `${ESTABLISHED}api\n`);
    client.finish();
    assert.equal((await lineOf(gateway, client)).backend, api.text);
  }
});

test('only configured backends are dialled', async () => {
  const targets = [
    `127.0.0.1:${foreign.port}`,
    `localhost:${foreign.port}`,
    `[::ffff:127.0.0.1]:${foreign.port}`,
  ];
  for (const target of targets) {
    const plain = await visit(gateway.port, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    assert.match(plain.received.toString(), /^HTTP\/1\.1 404 /, target);
    const gardener = `X-Gardener-Destination: outbound|${foreign.port}||127.0.0.1`;
    const byHeader = await visit(gateway.port, `CONNECT ${target} HTTP/1.1\r\n${gardener}\r\n\r\n`);
    assert.match(byHeader.received.toString(), /^HTTP\/1\.1 404 /, target);
  }
  assert.equal(foreign.connections.length, 0);
});
