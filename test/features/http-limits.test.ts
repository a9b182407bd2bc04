// Limits over HTTP count requests, not connections: a request over the limit gets 503, and a place is released at the
// end of a request, however it ends.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { supports } from './engine.ts';
import { Backend, type ClientOptions, lineOf, type Peer, startBlackHole, until } from './given.ts';
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

const PLACES = 3;

const stack = sharedStack();

const raw = stack.use(await Backend.start({ silent: true }));
const echo = stack.use(await HttpBackend.start('echo'));
const { port: blackHole } = stack.use(await startBlackHole());
const http = `http: ["${raw.text}"]`;
const { gateway, client } = await sharedGateway(
  stack,
  `
listen: ["127.0.0.1:0"]
workers: 2
timeouts: { connect: 300ms }
retries: 0
clusters:
  - { name: few, limits: { connections: ${PLACES} }, apps: { hosts: [few.test], ${http} } }
  - { name: fair, limits: { perSource: 2 }, apps: { hosts: [fair.test], ${http} } }
  - { name: rate, limits: { newPerSecond: 3 }, apps: { hosts: [rate.test], http: ["${echo.text}"] } }
  - { name: dead, limits: { connections: 1 }, apps: { hosts: [dead.test], http: ["127.0.0.1:${await freePort()}"] } }
  - { name: slow, limits: { connections: 1 }, apps: { hosts: [slow.test], http: ["127.0.0.1:${blackHole}"] } }
  - { name: open, apps: { hosts: [open.test], http: ["${echo.text}"] } }
`,
);

/** A request in progress, and the backend's side of it. */
async function hold(host: string, options?: ClientOptions): Promise<[client: HttpClient, served: Peer]> {
  const visitor = await client(options);
  return [visitor, await servedBy(raw, () => visitor.ask(host))];
}

function answer(served: Peer): void {
  served.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok');
}

async function refused(host: string, options?: ClientOptions): Promise<void> {
  using visitor = await client(options);
  visitor.ask(host);
  const { status, body } = await visitor.lastAnswer();
  assert.equal(status, 503);
  assert.match(body.toString(), /^over-limit: /);
  const line = await lineOf(gateway, visitor);
  assert.deepEqual([line.reason, `${line.cluster}.test`], ['over-limit', host]);
}

/** Asserts that exactly this many places are free: takes them, is refused once more, and releases them. */
async function places(host: string, count: number): Promise<void> {
  const held: [HttpClient, Peer][] = [];
  for (let i = 0; i < count; i++) held.push(await hold(host));
  await refused(host);
  for (const [visitor, served] of held) {
    answer(served);
    assert.equal((await visitor.answer()).status, 200);
    visitor[Symbol.dispose]();
  }
  await untilIdle(gateway);
}

describe('connections', () => {
  test('are requests in progress: one more is refused, and an idle connection does not count', async () => {
    const idle: HttpClient[] = [];
    for (let i = 0; i < PLACES + 2; i++) {
      const [visitor, served] = await hold('few.test');
      answer(served);
      assert.equal((await visitor.answer()).status, 200);
      idle.push(visitor);
    }
    await places('few.test', PLACES);
    for (const visitor of idle) visitor[Symbol.dispose]();
  });

  const ends: Record<string, (visitor: HttpClient, served: Peer) => unknown> = {
    'the client resets before the answer': visitor => visitor.peer.reset(),
    'the client resets in the middle of the answer': async (visitor, served) => {
      served.send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc');
      await visitor.peer.receives('abc');
      visitor.peer.reset();
    },
    'the backend resets before the answer': (_, served) => served.reset(),
    'the backend resets in the middle of the answer': async (visitor, served) => {
      served.send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc');
      await visitor.peer.receives('abc');
      served.reset();
    },
    'the client says what cannot be read': visitor => visitor.send('\0\r\n'),
    'the backend says what cannot be read': (_, served) => served.send('\0\r\n\r\n'),
    'an upgraded connection is reset by the client': async (visitor, served) => {
      served.send(request('HTTP/1.1 101 Switching', 'Connection: Upgrade', 'Upgrade: x'));
      await visitor.answer();
      visitor.peer.reset();
    },
    'an upgraded connection is reset by the backend': async (visitor, served) => {
      served.send(request('HTTP/1.1 101 Switching', 'Connection: Upgrade', 'Upgrade: x'));
      await visitor.answer();
      served.reset();
    },
  };
  for (const [what, end] of Object.entries(ends)) {
    test(`release their place when ${what}`, async () => {
      for (let i = 0; i < PLACES; i++) {
        const visitor = await client();
        const lines = [
          ...(what.includes('upgraded') ? ['Connection: Upgrade', 'Upgrade: x'] : []),
          ...(what.startsWith('the client says') ? ['Transfer-Encoding: chunked'] : []),
        ];
        const served = await servedBy(raw, () => visitor.ask('few.test', '/', ...lines));
        await end(visitor, served);
        if (!supports('endsFirst') && !/client resets|by the client/.test(what)) {
          await visitor.ended();
          visitor.peer.finish();
        }
        if (!supports('resets') && what.endsWith('by the client')) served.finish();
        await lineOf(gateway, visitor);
        visitor[Symbol.dispose]();
      }
      await untilIdle(gateway);
      await places('few.test', PLACES);
    });
  }

  test('release their place when no backend is reached, and when the client leaves during the dial', async () => {
    for (const host of ['dead.test', 'slow.test']) {
      for (let i = 0; i < 3; i++) {
        using visitor = await client();
        visitor.ask(host);
        assert.ok([502, 504].includes((await visitor.lastAnswer()).status));
        await lineOf(gateway, visitor);
      }
    }
    const visitor = await client();
    visitor.ask('slow.test');
    await untilActive(1);
    visitor.peer.reset();
    await lineOf(gateway, visitor);
    await untilIdle(gateway);
    using next = await client();
    assert.equal((await next.get('slow.test')).status, 504);
  });
});

describe('perSource', () => {
  test('counts the requests in progress of one client', async () => {
    const held = [await hold('fair.test'), await hold('fair.test')];
    await refused('fair.test');
    held.push(await hold('fair.test', { from: '127.0.0.5' }));
    answer(held[0][1]);
    assert.equal((await held[0][0].answer()).status, 200);
    // The client may have read its answer before the request is over.
    await requestLines(gateway, held[0][0], 1);
    held.push(await hold('fair.test'));
    await refused('fair.test');
    for (const [visitor] of held) visitor.peer.reset();
    await untilIdle(gateway);
    await places('fair.test', 2);
  });
});

describe('newPerSecond', () => {
  test('counts requests, also on one connection', async () => {
    using visitor = await client();
    for (let i = 0; i < 3; i++) assert.equal((await visitor.echo('rate.test')).backend, 'echo');
    visitor.ask('rate.test');
    assert.equal((await visitor.lastAnswer()).status, 503);
    assert.equal((await lineOf(gateway, visitor)).reason, 'over-limit');
  });
});

describe('pipelined requests', () => {
  test('are answered in order', async () => {
    using visitor = await client();
    const served = await servedBy(raw, () => {
      visitor.ask('few.test', '/first');
      for (let i = 0; i < 50; i++) visitor.ask('open.test', `/${i}`);
    });
    assert.equal(visitor.peer.received().length, 0);
    answer(served);
    assert.equal((await visitor.answer()).body.toString(), 'ok');
    for (let i = 0; i < 50; i++) assert.equal(echoOf(await visitor.answer()).url, `/${i}`);
    await requestLines(gateway, visitor, 51);
  });

  test('with bodies as well', async () => {
    using visitor = await client();
    visitor.send(
      ...Array.from({ length: 10 }, (_, i) =>
        [request(`POST /${i} HTTP/1.1`, 'Host: open.test', 'Content-Length: 9000'), `${i}`.repeat(9000)].join(
          '',
        ),
      ),
    );
    for (let i = 0; i < 10; i++) {
      const { url, body } = echoOf(await visitor.answer());
      assert.deepEqual([url, body], [`/${i}`, `${i}`.repeat(9000)]);
    }
  });

  test('wait in the kernel, however many there are, and are answered in order', async () => {
    using visitor = await client();
    const before = echo.asked.length;
    const served = await servedBy(raw, () => visitor.ask('few.test', '/first'));
    const count = 2000;
    visitor.send(request('GET / HTTP/1.1', 'Host: open.test').repeat(count));
    assert.equal(echo.asked.length, before);
    answer(served);
    assert.equal((await visitor.answer()).body.toString(), 'ok');
    for (let i = 0; i < count; i++) assert.equal((await visitor.answer()).status, 200);
    await untilIdle(gateway);
  });
});

async function untilActive(count: number): Promise<void> {
  await until(`${count} active`, async () => (await gateway.metric('causeway_connections_active')) === count);
}
