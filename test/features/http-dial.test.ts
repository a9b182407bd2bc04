// Backends of HTTP routes: which one gets a request, in which order others are tried, and when connections to them
// are reused: by one client only unless a request may be retried, never for two clusters, and never so that a POST is
// sent twice.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseProxyHeader } from '../../src/wire/proxy-protocol.ts';
import { freePort } from '../../testbed/free-port.ts';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import { Backend, lineOf, proxyV2, startBlackHole, until } from './given.ts';
import {
  echoOf,
  HttpBackend,
  HttpClient,
  request,
  requestLines,
  servedBy,
  sharedGateway,
  sharedStack,
} from './http-given.ts';

const BALANCER = '127.0.0.10';

const stack = sharedStack();

const shared = stack.use(await HttpBackend.start('shared'));
const raw = stack.use(await Backend.start({ silent: true }));
const turns = await Promise.all(['a', 'b', 'c'].map(async name => stack.use(await HttpBackend.start(name))));
const { port: blackHole } = stack.use(await startBlackHole());
const refusing = await freePort();
const latePort = await freePort();
const three = turns.map(({ text }) => `"${text}"`).join(', ');
const { gateway, client } = await sharedGateway(
  stack,
  `
listen: [{ on: "127.0.0.1:0", balancers: [${BALANCER}/32] }]
workers: 1
timeouts: { connect: 500ms }
clusters:
  - { name: one, apps: { hosts: [one.test], http: ["${shared.text}"] } }
  - { name: two, apps: { hosts: [two.test], http: ["${shared.text}"] } }
  - { name: raw, apps: { hosts: [raw.test], http: ["${raw.text}"] } }
  - { name: turn, apps: { hosts: [turn.test], http: { backends: [${three}], balance: round-robin } } }
  - { name: host, apps: { hosts: ["*.host.test"], http: [${three}] } }
  - { name: spare, apps: { hosts: [spare.test], http: { backends: ["127.0.0.1:${refusing}", "127.0.0.1:${blackHole}", "${shared.text}"], balance: round-robin } } }
  - { name: named, apps: { hosts: [named.test], http: ["localhost:${shared.port}"] } }
  - { name: nowhere, apps: { hosts: [nowhere.test], http: ["no-such-name.invalid:80"] } }
  - { name: v1, apps: { hosts: [v1.test], http: { backends: ["${raw.text}"], proxyProtocol: v1 } } }
  - { name: v2, apps: { hosts: [v2.test], http: { backends: ["${raw.text}"], proxyProtocol: v2 } } }
`,
);

async function post(visitor: HttpClient, host: string, body = 'body') {
  visitor.send(request('POST / HTTP/1.1', `Host: ${host}`, `Content-Length: ${body.length}`), body);
  return visitor.answer();
}

describe('a connection to a backend', () => {
  if (supports('pooledConnections'))
    test('is reused for further requests, also of other clients', async () => {
      using visitor = await client();
      using other = await client();
      const { connection } = await visitor.echo('one.test');
      assert.equal((await visitor.echo('one.test')).connection, connection);
      assert.equal((await other.echo('one.test')).connection, connection);
    });

  test('is never shared by two clusters with the same backend', async () => {
    using visitor = await client();
    const seen = new Map<number, string>();
    for (let round = 0; round < 6; round++) {
      for (const host of ['one.test', 'two.test']) {
        const { connection } = await visitor.echo(host);
        assert.equal(seen.get(connection) ?? host, host);
        seen.set(connection, host);
      }
    }
  });

  test('is not shared by requests that may not be retried', async () => {
    using visitor = await client();
    using other = await client();
    const isKept = supports('pooledConnections');
    const { connection: shared } = await visitor.echo('one.test');
    const connections = new Set<number>();
    for (let i = 0; i < 3; i++) {
      const { connection, headers } = echoOf(await post(visitor, 'one.test'));
      assert.equal(headers.connection, isKept ? 'keep-alive' : 'close');
      connections.add(connection);
    }
    assert.equal(connections.size, isKept ? 1 : 3, 'kept for this client');
    assert.ok(!connections.has(shared));
    assert.ok(!connections.has((await other.echo('one.test')).connection));
  });

  test('is closed after a request that may not be retried, if its client sends no other', async () => {
    using visitor = await client();
    const head = ['POST / HTTP/1.1', 'Host: one.test', 'Connection: close', 'Content-Length: 4'] as const;
    visitor.send(request(...head), 'body');
    assert.equal(echoOf(await visitor.lastAnswer()).headers.connection, 'close');
  });

  if (supports('pooledConnections'))
    test('that the backend closes when it is reused: a POST is not sent again', async () => {
      using visitor = await client();
      const send = (body: string) =>
        visitor.send(request('POST / HTTP/1.1', 'Host: raw.test', `Content-Length: ${body.length}`), body);
      const kept = await servedBy(raw, () => send('first'));
      await kept.receives('first');
      kept.send('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1');
      await visitor.answer();
      const before = raw.connections.length;
      send('second');
      await kept.receives('second');
      kept.reset();
      assert.equal(await visitor.ended(), 'RST');
      assert.equal(raw.connections.length, before);
      assert.equal((await lineOf(gateway, visitor)).reason, 'backend-reset');
      assert.deepEqual(
        (await requestLines(gateway, visitor, 2)).map(({ status }) => status),
        [200, 502],
      );
    });

  if (supports('pooledConnections'))
    test('that the backend closes when it is reused: a GET is retried once on a new one', async () => {
      using visitor = await client();
      const index = raw.connections.length;
      const kept = await servedBy(raw, () => visitor.ask('raw.test', '/first'));
      kept.send('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1');
      assert.equal((await visitor.answer()).body.toString(), '1');
      visitor.ask('raw.test', '/second');
      await kept.receives('/second');
      kept.reset();
      const next = await raw.accepted(index + 1);
      await next.receives('GET /second');
      next.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n2');
      assert.equal((await visitor.answer()).body.toString(), '2');

      // Only once.
      visitor.ask('raw.test', '/third');
      const third = await raw.accepted(index + 2);
      await third.receives('/third');
      third.reset();
      assert.equal((await visitor.lastAnswer()).status, 502);
      assert.equal(raw.connections.length, index + 3);
    });

  test('that was closed meanwhile is not reused', async () => {
    using visitor = await client();
    const index = raw.connections.length;
    const kept = await servedBy(raw, () => visitor.ask('raw.test', '/first'));
    kept.send('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1');
    await visitor.answer();
    kept.finish();
    await kept.untilEnd();
    visitor.ask('raw.test', '/second');
    const next = await raw.accepted(index + 1);
    await next.receives('GET /second');
    assert.ok(!kept.received().includes('/second'));
    next.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n2');
    assert.equal((await visitor.answer()).body.toString(), '2');
  });

  test('whose response came with FIN is not kept', async () => {
    for (let round = 0; round < 10; round++) {
      using visitor = await client();
      const index = raw.connections.length;
      const kept = await servedBy(raw, () => visitor.ask('raw.test', '/first'));
      kept.send('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1');
      kept.finish();
      await visitor.answer();
      visitor.ask('raw.test', '/second');
      const next = await raw.accepted(index + 1);
      await next.receives('GET /second');
      next.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n2');
      assert.equal((await visitor.answer()).body.toString(), '2');
    }
  });

  test('with surplus bytes of the backend is not kept: no other client gets them', async () => {
    for (const when of ['at once', 'later']) {
      using visitor = await client();
      const index = raw.connections.length;
      const kept = await servedBy(raw, () => visitor.ask('raw.test', '/first'));
      const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison';
      kept.send(`HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1${when === 'at once' ? poison : ''}`);
      assert.equal((await visitor.answer()).body.toString(), '1');
      if (when === 'later') kept.send(poison);
      await kept.untilEnd();
      visitor.ask('raw.test', '/second');
      const next = await raw.accepted(index + 1);
      await next.receives('GET /second');
      next.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n2');
      assert.equal((await visitor.answer()).body.toString(), '2');
      assert.equal(visitor.rest().length, 0);
    }
  });

  test('that the backend closes during a POST: 502, and the POST was sent once', async () => {
    // Before any byte was received it could look like a failed dial, which is retried.
    for (const seen of ['POST', 'body']) {
      using visitor = await client();
      const index = raw.connections.length;
      visitor.send(request('POST / HTTP/1.1', 'Host: raw.test', 'Content-Length: 4'), 'body');
      const served = await raw.accepted(index);
      await served.receives(seen);
      served.reset();
      assert.equal((await visitor.lastAnswer()).status, 502);
      assert.equal((await lineOf(gateway, visitor)).reason, 'backend-reset');
      assert.equal(raw.connections.length, index + 1);
    }
  });
});

describe('balance', () => {
  test('round-robin uses each in turn', async () => {
    using visitor = await client();
    const served: string[] = [];
    for (let i = 0; i < 6; i++) served.push((await visitor.echo('turn.test')).backend);
    assert.deepEqual(served.slice(0, 3).toSorted(), ['a', 'b', 'c']);
    assert.deepEqual(served.slice(3), served.slice(0, 3));
  });

  test('host: a host stays with its backend, and hosts are spread', async () => {
    using visitor = await client();
    const used = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const { backend } = await visitor.echo(`h${i}.host.test`);
      assert.equal((await visitor.echo(`h${i}.host.test`)).backend, backend);
      used.add(backend);
    }
    assert.equal(used.size, 3);
  });
});

describe('a backend that cannot be reached', () => {
  test('is skipped, for a POST too, and the log names the backend that served', async () => {
    for (let i = 0; i < 3; i++) {
      using visitor = await client();
      assert.equal(echoOf(await post(visitor, 'spare.test')).body, 'body');
      const [line] = await requestLines(gateway, visitor, 1);
      assert.deepEqual([line.backend, line.status], [shared.text, 200]);
    }
  });

  test('is tried again after a back-off', async () => {
    // It retries for longer than any machine takes to start a backend.
    await using patient = await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
timeouts: { connect: 10s }
retries: 100
clusters: [{ name: late, apps: { hosts: [late.test], http: ["127.0.0.1:${latePort}"] } }]
`,
    });
    using visitor = await HttpClient.connect(patient.port);
    const begun = performance.now();
    const answer = post(visitor, 'late.test');
    await until('the first attempt', () =>
      patient.metric('causeway_connections_active', { cluster: 'late' }),
    );
    await using _ = await HttpBackend.start('late', { port: latePort });
    assert.equal(echoOf(await answer).backend, 'late');
    assert.ok(performance.now() - begun >= 250);
  });

  test('by name: its other addresses are tried', async () => {
    using visitor = await client();
    const { backend } = await visitor.echo('named.test');
    assert.equal(backend, 'shared');
    const [line] = await requestLines(gateway, visitor, 1);
    assert.equal(line.backend, `localhost:${shared.port}`);
  });

  test('because its name has no address: 502', async () => {
    using visitor = await client();
    visitor.ask('nowhere.test');
    assert.equal((await visitor.lastAnswer()).status, 502);
    assert.equal((await lineOf(gateway, visitor)).reason, 'connect-failed');
  });
});

describe('proxyProtocol', () => {
  for (const version of ['v1', 'v2']) {
    test(`${version}: the client's address before each request, on a connection of its own`, async () => {
      using visitor = await HttpClient.connect(gateway.port, { from: BALANCER });
      visitor.send(proxyV2({ source: '192.0.2.7' }));
      for (let round = 0; round < 2; round++) {
        const index = raw.connections.length;
        visitor.ask(`${version}.test`);
        const served = await raw.accepted(index);
        const heard = await served.receives('GET / HTTP/1.1\r\n');
        const header = parseProxyHeader(heard, 0, heard.length);
        assert.ok(header.kind === 'found');
        assert.deepEqual([...(header.value.source?.address ?? [])], [192, 0, 2, 7]);
        assert.equal(heard.indexOf('GET /'), header.value.end);
        served.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
        assert.equal((await visitor.answer()).body.toString(), 'ok');
        await served.untilEnd();
      }
    });
  }
});

describe('an edit', () => {
  test('of backends: requests go to the new ones, and requests in progress continue', async () => {
    const old = stack.use(await Backend.start({ silent: true }));
    const config = (backend: string) => `
listen: ["127.0.0.1:0"]
clusters: [{ name: lab, apps: { hosts: [lab.test], http: ["${backend}"] } }]
`;
    await using edited = await startCauseway({ config: config(old.text) });
    using busy = await HttpClient.connect(edited.port);
    busy.ask('lab.test');
    const served = await old.accepted();
    await served.receives('\r\n\r\n');
    await edited.write(config(shared.text));
    await edited.line(({ msg }) => msg === 'applied');
    using visitor = await HttpClient.connect(edited.port);
    assert.equal((await visitor.echo('lab.test')).backend, 'shared');
    served.send('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold');
    assert.equal((await busy.answer()).body.toString(), 'old');
    assert.equal((await busy.echo('lab.test')).backend, 'shared');
    assert.equal(old.connections.length, 1);
  });
});
