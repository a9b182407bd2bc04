// Upgrades: a WebSocket, or any other protocol, is forwarded unread after the 101, with FIN in
// each direction separately; upgrades that would carry requests past the gateway are not forwarded.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { supports } from './engine.ts';
import { Backend, lineOf, type Peer } from './given.ts';
import {
  echoOf,
  HttpBackend,
  type HttpClient,
  request,
  requestLines,
  servedBy,
  sharedGateway,
  sharedStack,
  untilIdle,
} from './http-given.ts';

/** RFC 6455 1.3: the headers of a WebSocket's handshake, and the answer to that key. */
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';
const WEBSOCKET = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  `Sec-WebSocket-Key: ${KEY}`,
];
const SWITCHED = request('HTTP/1.1 101 Switching Protocols', 'Upgrade: echo', 'Connection: Upgrade');
const LARGE = 3_000_000;

const stack = sharedStack();

const backend = stack.use(
  await HttpBackend.start('backend', {
    upgrade: (asked, socket, head): unknown => {
      if (asked.url === '/refused')
        return socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno');
      if (asked.url === '/large')
        return socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${LARGE}\r\n\r\n${'x'.repeat(LARGE)}`);
      const { upgrade, connection, 'sec-websocket-key': key } = asked.headers;
      socket.write(
        request(
          'HTTP/1.1 101 Switching Protocols',
          `Upgrade: ${upgrade}`,
          'Connection: Upgrade',
          `Sec-WebSocket-Accept: ${ACCEPT}`,
          `X-Asked: ${connection} ${key}`,
        ),
      );
      socket.write(head);
      return socket.pipe(socket);
    },
  }),
);
const raw = stack.use(await Backend.start({ silent: true }));
const { gateway, client } = await sharedGateway(
  stack,
  `
listen: ["127.0.0.1:0"]
workers: 2
clusters:
  - { name: lab, limits: { connections: 50 }, apps: { hosts: [lab.test], http: ["${backend.text}"] } }
  - { name: raw, apps: { hosts: [raw.test], http: ["${raw.text}"] } }
`,
);

/** An upgraded connection to the backend that sends only what a test sends. */
async function switched(): Promise<[client: HttpClient, served: Peer]> {
  const visitor = await client();
  const served = await servedBy(raw, () =>
    visitor.ask('raw.test', '/', 'Connection: Upgrade', 'Upgrade: echo'),
  );
  served.send(SWITCHED);
  assert.equal((await visitor.answer()).status, 101);
  return [visitor, served];
}

describe('an upgrade is forwarded', () => {
  for (const protocol of ['websocket', 'SPDY/3.1', 'echo']) {
    test(protocol, async () => {
      using visitor = await client();
      // On a connection that has served a request before, with bytes after the upgrade request.
      assert.equal((await visitor.get('lab.test')).status, 200);
      visitor.ask(
        'lab.test',
        '/',
        'Connection: keep-alive, Upgrade',
        `Upgrade: ${protocol}`,
        'Sec-WebSocket-Version: 13',
        `Sec-WebSocket-Key: ${KEY}`,
      );
      visitor.send('ahead');
      const { status, headers } = await visitor.answer();
      assert.deepEqual(
        [status, headers.upgrade, headers.connection, headers['x-asked']],
        [101, protocol, 'Upgrade', `Upgrade ${KEY}`],
      );
      await visitor.peer.receives('ahead');
      visitor.send(Buffer.alloc(LARGE, 'ab'));
      await visitor.peer.receives(LARGE);
      visitor.peer.finish();
      assert.equal(await visitor.ended(), 'FIN');
      assert.equal(visitor.rest().length, 'ahead'.length + LARGE);
      const [, line] = await requestLines(gateway, visitor, 2);
      assert.deepEqual([line.status, line.cluster, line.backend], [101, 'lab', backend.text]);
      const { reason, cluster } = await lineOf(gateway, visitor);
      assert.deepEqual([reason, cluster], ['done', 'lab']);
      await untilIdle(gateway);
    });
  }

  test('bytes after the upgrade request are forwarded, and need not be HTTP', async () => {
    for (const ahead of ['\x81\x05hello\0\r\n\r\n', request('GET  / HTTP/1.1'), '\r\n\r\n\n']) {
      using visitor = await client();
      const wish = request('GET / HTTP/1.1', 'Host: lab.test', ...WEBSOCKET);
      visitor.send(Buffer.from(`${wish}${ahead}`, 'latin1'));
      assert.equal((await visitor.answer()).status, 101);
      visitor.send('and more');
      visitor.peer.finish();
      assert.equal(await visitor.ended(), 'FIN');
      assert.equal(visitor.rest().toString('latin1'), `${ahead}and more`);
      assert.equal((await lineOf(gateway, visitor)).reason, 'done');
    }
  });

  test('FIN is forwarded in each direction separately', async () => {
    const [visitor, served] = await switched();
    visitor.peer.finish();
    assert.equal(await served.untilEnd(), 'FIN');
    served.send('after');
    await visitor.peer.receives('after');
    served.finish();
    assert.equal(await visitor.ended(), 'FIN');
    assert.equal((await lineOf(gateway, visitor)).reason, 'done');

    const [other, otherServed] = await switched();
    otherServed.finish();
    assert.equal(await other.ended(), 'FIN');
    if (supports('halfClosedUpgrades')) {
      other.send('after');
      await otherServed.receives('after');
    }
    other.peer.finish();
    assert.equal(await otherServed.untilEnd(), 'FIN');
    assert.equal((await lineOf(gateway, other)).reason, 'done');
    await untilIdle(gateway);
  });

  test('a reset of either side reaches the other', async () => {
    const [visitor, served] = await switched();
    visitor.peer.reset();
    await served.untilEnd();
    if (!supports('resets')) served.finish();
    const { reason } = await lineOf(gateway, visitor);
    assert.match(`${reason}`, supports('resets') ? /^client-reset$/ : /^(?:client-reset|done)$/);

    const [other, otherServed] = await switched();
    otherServed.reset();
    assert.equal(await other.ended(), supports('resets') ? 'RST' : 'FIN');
    other[Symbol.dispose]();
    assert.equal((await lineOf(gateway, other)).reason, 'backend-reset');
    await untilIdle(gateway);
  });
});

describe('an upgrade request', () => {
  test('that is refused ends the connection with that response', async () => {
    using visitor = await client();
    visitor.ask('lab.test', '/refused', ...WEBSOCKET);
    const answer = await visitor.lastAnswer();
    assert.deepEqual([answer.status, answer.body.toString()], [403, 'no']);
    assert.equal((await lineOf(gateway, visitor)).reason, 'done');
  });

  test('with a long response gets all of it', async () => {
    using visitor = await client();
    visitor.ask('lab.test', '/large', ...WEBSOCKET);
    const answer = await visitor.lastAnswer();
    assert.deepEqual([answer.status, answer.body.length], [200, LARGE]);
    await untilIdle(gateway);
  });

  test('to an unknown host is refused like every request', async () => {
    using visitor = await client();
    visitor.ask('unknown.test', '/', ...WEBSOCKET);
    assert.equal((await visitor.lastAnswer()).status, 421);
  });

  test('behind an unanswered request is ignored: it is answered in its turn, as the last', async () => {
    using visitor = await client();
    const index = raw.connections.length;
    // In one segment, so that all of it is there before the first response.
    visitor.send(
      request('GET / HTTP/1.1', 'Host: raw.test'),
      request('GET /behind HTTP/1.1', 'Host: lab.test', ...WEBSOCKET),
      request('GET /never HTTP/1.1', 'Host: lab.test'),
    );
    const served = await raw.accepted(index);
    await served.receives('\r\n\r\n');
    served.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nfirst');
    assert.equal((await visitor.answer()).body.toString(), 'first');
    if (!supports('lateUpgradesIgnored')) {
      assert.equal((await visitor.answer()).status, 101);
      await visitor.peer.receives('GET /never');
      assert.ok(!backend.asked.includes('GET /never'));
      return;
    }
    const behind = echoOf(await visitor.lastAnswer());
    assert.deepEqual([behind.url, behind.headers.upgrade], ['/behind', undefined]);
    assert.ok(!backend.asked.includes('GET /never'));
  });

  for (const [what, line, ...lines] of [
    ['h2c', 'GET /a HTTP/1.1', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk'],
    ['h2c behind another', 'GET /a HTTP/1.1', 'Upgrade: websocket, h2c', `Sec-WebSocket-Key: ${KEY}`],
    ['TLS', 'GET /a HTTP/1.1', 'Upgrade: TLS/1.2'],
    ['HTTP/2.0', 'GET /a HTTP/1.1', 'Upgrade: HTTP/2.0'],
    ['anything in HTTP/1.0', 'GET /a HTTP/1.0', 'Upgrade: websocket', `Sec-WebSocket-Key: ${KEY}`],
  ]) {
    test(`to ${what} is not forwarded`, async () => {
      using visitor = await client();
      visitor.send(
        request(line, 'Host: lab.test', 'Connection: Upgrade, HTTP2-Settings, keep-alive', ...lines),
        request('GET /never HTTP/1.1', 'Host: lab.test'),
      );
      const { url, headers } = echoOf(await visitor.lastAnswer());
      assert.deepEqual([url, headers.upgrade, headers['http2-settings']], ['/a', undefined, undefined]);
      if (supports('pooledConnections')) assert.equal(headers.connection, 'keep-alive');
      else assert.match(headers.connection ?? 'close', /^(?:close|keep-alive)$/);
      assert.equal((await lineOf(gateway, visitor)).reason, 'done');
      assert.ok(!backend.asked.includes('GET /never'));
    });
  }

  test('with a body is an ordinary request', async () => {
    using visitor = await client();
    visitor.send(
      request('POST / HTTP/1.1', 'Host: lab.test', ...WEBSOCKET, 'Content-Length: 4'),
      'body',
      request('GET /never HTTP/1.1', 'Host: lab.test'),
    );
    const isLast = supports('upgradeWithBodyIsLast');
    const { body, headers } = echoOf(await (isLast ? visitor.lastAnswer() : visitor.answer()));
    assert.deepEqual([body, headers.upgrade], ['body', undefined]);
    if (isLast) assert.ok(!backend.asked.includes('GET /never'));
  });
});
