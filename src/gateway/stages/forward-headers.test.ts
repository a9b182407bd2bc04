import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { type Forwarding, requestHeaders, responseHeaders, trailers } from './forward-headers.ts';

const forwarding: Forwarding = {
  isHttp10: false,
  client: '192.0.2.1',
  host: 'a.test:80',
  trustForwarded: false,
  upgrade: undefined,
  keepAlive: true,
  isChunked: false,
  isEmpty: false,
};

const added = [
  'X-Forwarded-For',
  '192.0.2.1',
  'X-Forwarded-Proto',
  'http',
  'X-Forwarded-Host',
  'a.test:80',
  'Connection',
  'keep-alive',
];

const plain = { status: 200, upgrade: false, isChunked: false };

describe('requestHeaders()', () => {
  test('keeps order, case and repetitions, and adds the client', () => {
    const raw = ['hOsT', 'a.test:80', 'Accept', 'a', 'ACCEPT', 'b', 'X', ''];
    assert.deepEqual(requestHeaders(raw, forwarding), [...raw, ...added]);
  });

  test('drops hop-by-hop headers', () => {
    const raw = [
      'Connection',
      'close, X-Hop ,, x-other',
      'X-Hop',
      '1',
      'X-OTHER',
      '1',
      'Keep-Alive',
      '1',
      'Proxy-Connection',
      'close',
      'Transfer-Encoding',
      'chunked',
      'Upgrade',
      'websocket',
      'TE',
      'gzip',
    ];
    assert.deepEqual(requestHeaders(raw, forwarding), added);
  });

  test('keeps the headers that a backend relies on, even if Connection names them', () => {
    const raw = ['Host', 'a', 'Content-Length', '5', 'Cookie', 'c', 'Authorization', 'd'];
    const connection = ['Connection', 'host, content-length, cookie, authorization, x-forwarded-for'];
    assert.deepEqual(requestHeaders([...connection, ...raw], forwarding), [...raw, ...added]);
  });

  test('drops the forwarding headers of a client, in any spelling', () => {
    const raw = [
      ['X-Forwarded-For', 'x-forwarded-proto', 'X-FORWARDED-HOST', 'X-Forwarded-Anything', 'Forwarded'],
      ['X_Forwarded_For', 'x-forwarded_for', 'Content_Length', 'Transfer_Encoding', 'Proxy_Connection'],
    ]
      .flat()
      .flatMap(name => [name, 'forged']);
    assert.deepEqual(requestHeaders(raw, forwarding), added);
    assert.deepEqual(requestHeaders(['X_Own', '1'], forwarding), ['X_Own', '1', ...added]);
  });

  test('passes the forwarding headers of a balancer, and appends the client', () => {
    const raw = ['X-Forwarded-For', 'a, b', 'X-Forwarded-For', 'c', 'X-Forwarded-Proto', 'https'];
    const headers = requestHeaders([...raw, 'Forwarded', 'for=a', 'X-Forwarded-Host', 'h'], {
      ...forwarding,
      trustForwarded: true,
    });
    assert.deepEqual(headers, [
      'X-Forwarded-Proto',
      'https',
      'Forwarded',
      'for=a',
      'X-Forwarded-Host',
      'h',
      'X-Forwarded-For',
      'a, b, c, 192.0.2.1',
      'Connection',
      'keep-alive',
    ]);
  });

  test('writes Connection, Upgrade and the framing', () => {
    const last = (change: Partial<Forwarding>) => requestHeaders([], { ...forwarding, ...change }).slice(6);
    assert.deepEqual(last({ keepAlive: false }), ['Connection', 'close']);
    assert.deepEqual(last({ upgrade: 'websocket' }), ['Upgrade', 'websocket', 'Connection', 'Upgrade']);
    assert.deepEqual(last({ isChunked: true }), ['Connection', 'keep-alive', 'Transfer-Encoding', 'chunked']);
    assert.deepEqual(last({ isEmpty: true }), ['Connection', 'keep-alive', 'Content-Length', '0']);
  });

  test('passes TE: trailers, Trailer with chunks, and Expect of HTTP/1.1', () => {
    const pass = (name: string, value: string, change: Partial<Forwarding> = {}) =>
      requestHeaders([name, value], { ...forwarding, ...change }).slice(0, -8 - (change.isChunked ? 2 : 0));
    assert.deepEqual(pass('te', 'gzip, Trailers'), ['TE', 'trailers']);
    assert.deepEqual(pass('Trailer', 'X'), []);
    assert.deepEqual(pass('Trailer', 'X', { isChunked: true }), ['Trailer', 'X']);
    assert.deepEqual(pass('Expect', '100-continue'), ['Expect', '100-continue']);
    assert.deepEqual(pass('Expect', '100-continue', { isHttp10: true }), []);
  });

  test('writes the framing and the client exactly once, for any headers', () => {
    const name = fc.constantFrom(
      'Transfer-Encoding',
      'transfer_encoding',
      'Connection',
      'X-Forwarded-For',
      'x_forwarded_for',
      'Upgrade',
      'X-Forwarded-Proto',
      'Keep-Alive',
      'Accept',
    );
    const value = fc.constantFrom('chunked', 'close', 'x-forwarded-for', 'transfer-encoding, upgrade', 'a');
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value)), fc.boolean(), (raw, isChunked) => {
        const headers = requestHeaders(raw.flat(), { ...forwarding, isChunked });
        const names = headers
          .filter((_, at) => at % 2 === 0)
          .map(text => text.toLowerCase().replaceAll('_', '-'));
        const count = (wanted: string) => names.filter(text => text === wanted).length;
        assert.equal(count('transfer-encoding'), isChunked ? 1 : 0);
        for (const once of ['connection', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'])
          assert.equal(count(once), 1);
        for (const never of ['upgrade', 'keep-alive']) assert.equal(count(never), 0);
      }),
    );
  });
});

describe('responseHeaders()', () => {
  test('drops hop-by-hop headers', () => {
    const raw = ['Connection', 'X-Hop', 'X-Hop', '1', 'Transfer-Encoding', 'chunked', 'Keep-Alive', 't'];
    assert.deepEqual(
      responseHeaders([...raw, 'Set-Cookie', 'a', 'Set-Cookie', 'b', 'Upgrade', 'h2'], plain),
      ['Set-Cookie', 'a', 'Set-Cookie', 'b'],
    );
  });

  test('keeps the upgrade of a 101, and Trailer with chunks', () => {
    assert.deepEqual(
      responseHeaders(['Upgrade', 'x', 'Connection', 'upgrade'], { ...plain, upgrade: true }),
      ['Upgrade', 'x', 'Connection', 'Upgrade'],
    );
    assert.deepEqual(responseHeaders(['Trailer', 'X'], plain), []);
    assert.deepEqual(responseHeaders(['Trailer', 'X'], { ...plain, isChunked: true }), ['Trailer', 'X']);
  });
});

test('responseHeaders() drops Content-Length from a response that has no body', () => {
  const raw = ['Content-Length', '5'];
  for (const status of [103, 204])
    assert.deepEqual(responseHeaders(raw, { ...plain, status }), [], `${status}`);
  for (const status of [200, 304]) assert.deepEqual(responseHeaders(raw, { ...plain, status }), raw);
});

test('trailers() drops fields that belong in the head', () => {
  const names = ['X-Sum', 'Host', 'Content-Length', 'Transfer-Encoding', 'X-Forwarded-For', 'Authorization'];
  const raw = [...names, 'x_forwarded_for', 'Connection', 'Cookie', 'Etag'].flatMap(name => [name, 'v']);
  assert.deepEqual(trailers(raw), [
    ['X-Sum', 'v'],
    ['Etag', 'v'],
  ]);
});
