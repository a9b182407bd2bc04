// Content of requests and responses: bodies stream both ways at the pace of the slower side, complete or visibly
// broken; trailers, 1xx and responses without a body are forwarded unchanged.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request as send } from 'node:http';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { supports } from './engine.ts';
import { Backend, connectClient, lineOf, type Peer, until } from './given.ts';
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

const HOST = 'lab.test';
const MIB = 1024 * 1024;
const LARGE_MIB = 256;
/** Memory that a stream of any length may add: buffers on the path and uncollected garbage. */
const GROWTH_MIB = 220;

const stack = sharedStack();

const block = Buffer.alloc(MIB, 'causeway');
const backend: HttpBackend = stack.use(
  await HttpBackend.start('backend', {
    on: {
      '/no-content': (_, response) => response.writeHead(204).end(),
      '/not-modified': (_, response) =>
        response.writeHead(304, { ETag: '"x"', 'Content-Length': '77' }).end(),
      '/trailers': (_, response) => {
        response.writeHead(200, { Trailer: 'X-Sum' });
        response.write('one');
        response.addTrailers({ 'X-Sum': '3', 'Keep-Alive': '9' });
        response.end('two');
      },
      '/hints': (_, response) => {
        response.writeEarlyHints({ link: '</a.css>; rel=preload' });
        response.end('hinted');
      },
      '/large': (_, response) => Readable.from(Array(LARGE_MIB).fill(block)).pipe(response),
      '/count': async (asked, response) => {
        const hash = createHash('sha256');
        let length = 0;
        for await (const chunk of asked) {
          length += chunk.length;
          hash.update(chunk);
        }
        response.end(`${length} ${hash.digest('hex')}`);
      },
      '/early': (_, response) => response.writeHead(413, { Connection: 'close' }).end('too large'),
      continue: (asked, response) => {
        if (asked.url === '/refuse') response.writeHead(417).end('no');
        else {
          response.writeContinue();
          backend.server.emit('request', asked, response);
        }
      },
    },
  }),
);
/** Sends only what a test sends. */
const raw = stack.use(await Backend.start({ silent: true }));
const { gateway, client } = await sharedGateway(
  stack,
  `
listen: ["127.0.0.1:0"]
workers: 2
clusters:
  - { name: lab, apps: { hosts: [${HOST}], http: ["${backend.text}"] } }
  - { name: raw, apps: { hosts: [raw.test], http: ["${raw.text}"] } }
`,
);

/** A request to that backend, and its connection there, which is not kept. */
async function ask(visitor: HttpClient, ...parts: readonly string[]): Promise<Peer> {
  return servedBy(raw, () =>
    visitor.send(parts.length === 0 ? request('GET / HTTP/1.1', 'Host: raw.test') : parts.join('')),
  );
}

describe('a response without a body', () => {
  test('to HEAD keeps its Content-Length', async () => {
    using visitor = await client();
    const { headers } = await visitor.get(HOST, '/');
    visitor.send(request('HEAD / HTTP/1.1', `Host: ${HOST}`));
    const answer = await visitor.answer('HEAD');
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-type'], headers['content-type']);
    assert.equal((await visitor.get(HOST)).status, 200);
  });

  test('to HEAD, with announced trailers', async () => {
    using visitor = await client();
    const served = await ask(visitor, request('HEAD / HTTP/1.1', 'Host: raw.test'));
    served.send(
      'HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n',
    );
    assert.equal((await visitor.answer('HEAD')).status, 200);
    assert.equal((await visitor.get(HOST)).status, 200);
  });

  test('204 and 304', async () => {
    using visitor = await client();
    assert.equal((await visitor.get(HOST, '/no-content')).status, 204);
    const { status, headers } = await visitor.get(HOST, '/not-modified');
    assert.deepEqual([status, headers.etag, headers['content-length']], [304, '"x"', '77']);
    assert.equal((await visitor.get(HOST)).status, 200);
  });
});

describe('surplus bytes of a backend', () => {
  for (const method of ['GET', 'POST']) {
    for (const [what, says] of Object.entries({
      'a length of 204': 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n',
      'a body of 204': 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello',
      'chunks of 204': 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'a length of 103':
        'HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n',
      'a second answer':
        'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil',
    })) {
      test(`${what} to ${method} do not reach the client, whose connection stays open`, async () => {
        using visitor = await client();
        const served = await ask(visitor, request(`${method} / HTTP/1.1`, 'Host: raw.test'));
        served.send(says);
        let answer = await visitor.answer();
        assert.equal(answer.headers['content-length'], answer.status === 200 ? '0' : undefined);
        if (answer.status === 103) answer = await visitor.answer();
        assert.equal(answer.body.length, 0);
        served.finish();
        assert.equal((await visitor.echo(HOST)).backend, 'backend');
      });
    }
  }
});

describe('chunks and trailers', () => {
  test('are forwarded both ways', async () => {
    using visitor = await client();
    visitor.send(
      request('POST / HTTP/1.1', `Host: ${HOST}`, 'Transfer-Encoding: chunked', 'Trailer: X-Sum'),
      '3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nX-Sum: 5\r\nX-Forwarded-For: 203.0.113.1\r\nHost: x\r\n\r\n',
    );
    const echo = echoOf(await visitor.answer());
    assert.deepEqual([echo.body, echo.trailers['x-sum']], ['abcde', '5']);
    if (supports('judgesTrailers')) assert.deepEqual(Object.keys(echo.trailers), ['x-sum']);
    const { body, trailers, headers } = await visitor.get(HOST, '/trailers');
    const [sum, ...others] = trailers.split('\r\n');
    assert.deepEqual([body.toString(), sum.toLowerCase(), headers.trailer], ['onetwo', 'x-sum: 3', 'X-Sum']);
    if (supports('judgesTrailers')) assert.deepEqual(others, []);
  });

  if (supports('http11Upstream'))
    test('to HTTP/1.0 the end of the connection ends the body instead', async () => {
      using visitor = await client();
      visitor.send(request('GET /trailers HTTP/1.0', `Host: ${HOST}`));
      const { body, headers } = await visitor.lastAnswer();
      assert.deepEqual(
        [body.toString(), headers['transfer-encoding'], headers.trailer],
        ['onetwo', undefined, undefined],
      );
    });

  test('an unusual request body is forwarded too', async () => {
    using visitor = await client();
    visitor.send(request('GET / HTTP/1.1', `Host: ${HOST}`, 'Content-Length: 4'), 'body');
    assert.equal(echoOf(await visitor.answer()).body, 'body');
    visitor.send(
      request('DELETE / HTTP/1.1', `Host: ${HOST}`, 'Transfer-Encoding: chunked'),
      '1\r\nx\r\n0\r\n\r\n',
    );
    assert.equal(echoOf(await visitor.answer()).body, 'x');
    visitor.send(request('POST / HTTP/1.1', `Host: ${HOST}`));
    assert.equal(echoOf(await visitor.answer()).headers['content-length'], '0');
  });

  test('a response without a length is complete when the connection ends', async () => {
    using visitor = await client();
    const served = await ask(visitor);
    served.send('HTTP/1.1 200 OK\r\n\r\nto the end');
    await visitor.peer.receives('to the end');
    assert.equal(visitor.peer.end(), undefined);
    served.finish();
    assert.equal((await visitor.answer()).body.toString(), 'to the end');
  });
});

describe('1xx responses', () => {
  test('100-continue: expected, sent, and then the body follows', async () => {
    using visitor = await client();
    visitor.send(request('POST / HTTP/1.1', `Host: ${HOST}`, 'Content-Length: 4', 'Expect: 100-continue'));
    assert.equal((await visitor.answer()).status, 100);
    visitor.send('body');
    assert.equal(echoOf(await visitor.answer()).body, 'body');
    await requestLines(gateway, visitor, 1);
  });

  if (supports('earlyAnswerIsLast'))
    test('100-continue refused: the response is the last, and the body is not awaited', async () => {
      using visitor = await client();
      visitor.send(
        request('POST /refuse HTTP/1.1', `Host: ${HOST}`, 'Content-Length: 4', 'Expect: 100-continue'),
      );
      assert.equal((await visitor.lastAnswer()).status, 417);
      assert.equal((await lineOf(gateway, visitor)).reason, 'done');
    });

  test('103 is forwarded, but not to HTTP/1.0', async () => {
    using visitor = await client();
    visitor.ask(HOST, '/hints');
    const hints = await visitor.answer();
    assert.deepEqual([hints.status, hints.headers.link], [103, '</a.css>; rel=preload']);
    assert.equal((await visitor.answer()).body.toString(), 'hinted');
    if (!supports('http11Upstream')) return;
    visitor.send(request('GET /hints HTTP/1.0', `Host: ${HOST}`));
    assert.equal((await visitor.lastAnswer()).body.toString(), 'hinted');
  });
});

describe('an early end', () => {
  if (supports('answersAfterFin'))
    test('FIN after the request: the response is still sent', async () => {
      for (const when of ['at once', 'later']) {
        using visitor = await client();
        const served = await servedBy(raw, () => {
          visitor.ask('raw.test');
          if (when === 'at once') visitor.peer.finish();
        });
        if (when === 'later') visitor.peer.finish();
        served.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n');
        await visitor.peer.receives('\r\n\r\n');
        served.send('ok');
        assert.equal((await visitor.lastAnswer()).body.toString(), 'ok', when);
        assert.equal((await lineOf(gateway, visitor)).reason, 'done');
      }
    });

  test('a response before the request is complete is the last', async () => {
    using visitor = await client();
    visitor.send(request('POST /early HTTP/1.1', `Host: ${HOST}`, 'Content-Length: 100000'), 'x'.repeat(999));
    const isLast = supports('earlyAnswerIsLast');
    const answer = await (isLast ? visitor.lastAnswer() : visitor.answer());
    assert.deepEqual([answer.status, answer.body.toString()], [413, 'too large']);
    if (!isLast) return;
    assert.equal((await lineOf(gateway, visitor)).reason, 'done');
  });

  test('a client that leaves during its body ends the request at the backend', async () => {
    for (const leave of ['reset', 'FIN'] as const) {
      const visitor = await client();
      const served = await ask(
        visitor,
        request('POST / HTTP/1.1', 'Host: raw.test', 'Content-Length: 9'),
        'abc',
      );
      await served.receives('abc');
      if (leave === 'reset') visitor.peer.reset();
      else visitor.peer.finish();
      await served.untilEnd();
      const { reason } = await lineOf(gateway, visitor);
      assert.equal(reason, leave === 'reset' ? 'client-reset' : 'client-gone');
      assert.equal((await requestLines(gateway, visitor, 1))[0].status, 499);
      visitor[Symbol.dispose]();
    }
    await untilIdle(gateway);
  });

  for (const [what, rest] of Object.entries({
    head: 'GET / HTTP/1.1\r\nHost: la',
    body: `${request('POST / HTTP/1.1', `Host: ${HOST}`, 'Content-Length: 9')}abc`,
    chunk: `${request('POST / HTTP/1.1', `Host: ${HOST}`, 'Transfer-Encoding: chunked')}9\r\nabc`,
  })) {
    if (!supports('answersAfterFin')) continue;
    test(`FIN in the middle of a ${what} ends the connection after the earlier responses`, async () => {
      using visitor = await client();
      const served = await ask(visitor, request('GET / HTTP/1.1', 'Host: raw.test'), rest);
      visitor.peer.finish();
      served.send('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok');
      assert.equal((await visitor.lastAnswer()).body.toString(), 'ok');
      assert.equal((await lineOf(gateway, visitor)).reason, 'client-gone');
      await untilIdle(gateway);
    });
  }

  test('a client that leaves during the response ends the request at the backend', async () => {
    const visitor = await client();
    const served = await ask(visitor);
    served.send('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc');
    await visitor.peer.receives('abc');
    visitor.peer.reset();
    await served.untilEnd();
    assert.equal((await lineOf(gateway, visitor)).reason, 'client-reset');
    const [line] = await requestLines(gateway, visitor, 1);
    assert.equal(line.status, 200);
    await untilIdle(gateway);
  });

  test('a client that leaves before the response ends the request at the backend', async () => {
    const visitor = await client();
    const served = await ask(visitor);
    visitor.peer.reset();
    await served.untilEnd();
    assert.equal((await lineOf(gateway, visitor)).reason, 'client-reset');
    const [line] = await requestLines(gateway, visitor, 1);
    assert.equal(line.status, 499);
    await untilIdle(gateway);
  });

  for (const [framing, head] of [
    ['a length', 'Content-Length: 100\r\n'],
    ['chunks', 'Transfer-Encoding: chunked\r\n'],
  ] as const) {
    for (const version of ['1.1', '1.0']) {
      for (const how of ['FIN', 'reset'] as const) {
        test(`a backend that leaves during a response with ${framing}: HTTP/${version}, ${how}`, async () => {
          using visitor = await client();
          const served = await ask(visitor, request(`GET / HTTP/${version}`, 'Host: raw.test'));
          served.send(`HTTP/1.1 200 OK\r\n${head}\r\n`, framing === 'chunks' ? '3\r\nabc\r\n' : 'abc');
          await visitor.peer.receives('abc');
          if (how === 'FIN') served.finish();
          else served.reset();
          assert.equal(await visitor.ended(), supports('resets') ? 'RST' : 'FIN');
          visitor[Symbol.dispose]();
          assert.equal((await lineOf(gateway, visitor)).reason, 'backend-reset');
        });
      }
    }
  }

  if (supports('answersAfterFin'))
    test('a backend that leaves during a response, to a client that has sent FIN', async () => {
      using visitor = await client();
      const served = await ask(visitor, request('GET / HTTP/1.0', 'Host: raw.test'));
      visitor.peer.finish();
      served.send('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc');
      await visitor.peer.receives('abc');
      served.reset();
      assert.equal(await visitor.ended(), 'RST');
      assert.equal((await lineOf(gateway, visitor)).reason, 'backend-reset');
    });

  test('a malformed response is a 502', async () => {
    const nonsenses = [
      'nonsense\r\n\r\n',
      `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
    ];
    if (supports('strictHttp'))
      nonsenses.push(
        'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
        'HTTP/1.1 200 OK\nContent-Length: 1\n\nx',
        'HTTP/1.1 099 Odd\r\n\r\n',
        'HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n',
        'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx',
        'HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n',
      );
    for (const nonsense of nonsenses) {
      // On a connection that may be kept, and on a dedicated one.
      for (const method of ['GET', 'POST']) {
        using visitor = await client();
        (await ask(visitor, request(`${method} / HTTP/1.1`, 'Host: raw.test'))).send(nonsense);
        assert.equal((await visitor.lastAnswer()).status, 502, `${method}: ${nonsense}`);
        assert.equal((await lineOf(gateway, visitor)).reason, 'backend-reset');
      }
    }
  });
});

describe(`${LARGE_MIB} MiB`, () => {
  test('stream to and from the client in bounded memory', async () => {
    const before = await residentMib();
    const upload = send({ port: gateway.port, method: 'PUT', path: '/count', headers: { host: HOST } });
    const download = send({ port: gateway.port, path: '/large', headers: { host: HOST } }).end();
    const expected = createHash('sha256');
    const answered = once(upload, 'response');
    const [[large]] = await Promise.all([
      once(download, 'response'),
      (async () => {
        for (let sent = 0; sent < LARGE_MIB; sent++) {
          const block = Buffer.alloc(MIB, sent);
          expected.update(block);
          if (!upload.write(block)) await once(upload, 'drain');
        }
        upload.end();
      })(),
    ]);
    let received = 0;
    let most = 0;
    for await (const chunk of large) {
      received += chunk.length;
      if (received % (32 * MIB) < chunk.length) most = Math.max(most, await residentMib());
    }
    const [counted] = await answered;
    const said = (await counted.toArray()).join('');
    assert.equal(said, `${LARGE_MIB * MIB} ${expected.digest('hex')}`);
    assert.equal(received, LARGE_MIB * MIB);
    assert.ok(most < before + GROWTH_MIB, `memory went from ${before} to ${most} MiB`);
  });

  test('for a client that does not read stay at the backend, and others are served', async () => {
    const before = await residentMib();
    const readers = await Promise.all(Array.from({ length: 8 }, () => connectClient(gateway.port)));
    for (const reader of readers) {
      reader.socket.pause();
      reader.send(request('GET /large HTTP/1.1', `Host: ${HOST}`));
    }
    await until('all to be asked for', () => backend.asked.filter(line => line === 'GET /large').length >= 9);
    for (let round = 0; round < 20; round++) {
      using visitor = await client();
      assert.equal((await visitor.echo(HOST)).backend, 'backend');
    }
    const now = await residentMib();
    assert.ok(now < before + GROWTH_MIB, `memory went from ${before} to ${now} MiB`);
    for (const reader of readers) reader.reset();
    await untilIdle(gateway);
  });
});

async function residentMib(): Promise<number> {
  const status = await readFile(`/proc/${gateway.program.pid}/status`, 'utf8');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024);
}
