// Requests after the last one of a connection, which is a refused one or one with Connection: close: nothing is
// served, whatever it is and however it arrives. Neighbours on the same threads are unaffected.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { lineOf, until } from './given.ts';
import {
  HttpBackend,
  type HttpClient,
  request,
  requestLines,
  sharedGateway,
  sharedStack,
  untilIdle,
} from './http-given.ts';

const stack = sharedStack();
/** More than a client that does not read and the kernels on both sides can buffer. */
const LARGE = 12_000_000;
const backend = stack.use(
  await HttpBackend.start('backend', {
    on: { '/large': (_, response) => response.end(Buffer.alloc(LARGE, 'x')) },
    upgrade: (_, socket) => socket.destroy(),
  }),
);
const { gateway, client } = await sharedGateway(
  stack,
  `
listen: ["127.0.0.1:0"]
workers: 1
clusters:
  - { name: lab, apps: { hosts: [lab.test], http: ["${backend.text}"] } }
  - { name: closed, allow: [192.0.2.0/24], apps: { hosts: [closed.test], http: ["${backend.text}"] } }
`,
);

/** The last request that is answered on a connection. */
const lasts = {
  'an unknown host': [421, request('GET /first HTTP/1.1', 'Host: nobody.test')],
  'an address that is not allowed': [403, request('GET /first HTTP/1.1', 'Host: closed.test')],
  'two hosts': [400, request('GET /first HTTP/1.1', 'Host: lab.test', 'Host: nobody.test')],
  'the last request that the client announces': [
    200,
    request('GET /first HTTP/1.1', 'Host: lab.test', 'Connection: close'),
  ],
  'a request in HTTP/1.0': [200, request('GET /first HTTP/1.0', 'Host: lab.test')],
} as const;

const behinds = {
  'an upgrade': request('GET /never HTTP/1.1', 'Host: lab.test', 'Connection: Upgrade', 'Upgrade: websocket'),
  'a CONNECT': request('CONNECT never:443 HTTP/1.1', 'Host: never:443'),
  'a request': request('GET /never HTTP/1.1', 'Host: lab.test'),
  'a request with a body': `${request('POST /never HTTP/1.1', 'Host: lab.test', 'Content-Length: 4')}body`,
  'half a head': 'GET /never HTTP/1.1\r\nHost: lab',
  'what is no HTTP': '\0\x01\x02\r\n\r\n',
};

/** Asserts one response, FIN, one line for the request and one for the connection, and no more at the backend. */
async function assertLast(visitor: HttpClient, status: number): Promise<void> {
  const answer = await visitor.lastAnswer();
  assert.equal(answer.status, status);
  const [line] = await requestLines(gateway, visitor, 1);
  assert.equal(line.status, status);
  const { reason } = await lineOf(gateway, visitor);
  assert.equal(reason, { 421: 'unknown-host', 403: 'not-allowed', 400: 'bad-request', 200: 'done' }[status]);
  assert.ok(!backend.asked.some(asked => asked.includes('never')), backend.asked.join(', '));
}

for (const [last, [status, first]] of Object.entries(lasts)) {
  describe(`after ${last} (${status})`, () => {
    for (const [what, behind] of Object.entries(behinds)) {
      test(`${what} is not served: in the same segment, in the next one, in both, and twice`, async () => {
        using neighbour = await client();
        const half = behind.length / 2;
        for (const parts of [
          [`${first}${behind}`],
          [first, behind],
          [`${first}${behind.slice(0, half)}`, behind.slice(half)],
          [`${first}${behind}`, behind],
        ]) {
          using visitor = await client();
          visitor.peer.socket.setNoDelay(true);
          for (const part of parts) {
            visitor.send(part);
            await delay(1);
          }
          await assertLast(visitor, status);
          assert.equal((await neighbour.get('lab.test')).status, 200);
        }
      });
    }
  });
}

test('every one of many clients gets its refusal, although malformed bytes follow', async () => {
  const [, first] = lasts['an unknown host'];
  for (let round = 0; round < 20; round++) {
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        using visitor = await client();
        visitor.peer.socket.setNoDelay(true);
        visitor.send(first, 'GET /never HTTP/1.1\nHost: ');
        await delay(1);
        visitor.send('lab.test\n\n', behinds['a request']);
        visitor.peer.finish();
        assert.equal((await visitor.lastAnswer()).status, 421);
      }),
    );
  }
});

test('a large response is complete, although a CONNECT follows its request', async () => {
  using visitor = await client();
  visitor.peer.socket.pause();
  visitor.send(request('GET /large HTTP/1.1', 'Host: lab.test'), behinds['a CONNECT']);
  // Until the gateway is blocked on the client.
  await until('the backend to be asked', () => backend.asked.includes('GET /large'));
  await delay(100);
  visitor.peer.socket.resume();
  const answer = await visitor.answer();
  assert.deepEqual([answer.status, answer.body.length], [200, LARGE]);
  assert.equal((await visitor.lastAnswer()).status, 400);
  assert.equal((await lineOf(gateway, visitor)).reason, 'bad-request');
});

test('nothing is left behind', async () => {
  await untilIdle(gateway);
});
