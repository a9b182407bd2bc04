import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { ascii } from '../../wire/hello.samples.ts';
import { requestHeadOf } from '../../wire/http-heads.samples.ts';
import { parseResponseHead } from '../../wire/http-response.ts';
import {
  type Forwarding,
  forwardedLines,
  type ResponseForwarding,
  trailers,
  writeRequestHead,
  writeResponseHead,
} from './forward-headers.ts';
import { judgeRequest, knownMethod } from './judge-request.ts';

const client = '192.0.2.1';
const usual: Forwarding = {
  client,
  lines: forwardedLines(client),
  trustForwarded: false,
  upgrade: undefined,
  keepAlive: true,
  isEmpty: false,
};
const added = [
  'X-Forwarded-For: 192.0.2.1',
  'X-Forwarded-Proto: http',
  'X-Forwarded-Host: a.test:80',
  'Connection: keep-alive',
];
const HOST = 'Host: a.test:80';
const out = Buffer.alloc(64 * 1024);

/** The lines for the backend, without Host, which is always the first here. */
function passed(
  lines: readonly string[],
  change: Partial<Forwarding> = {},
  first = 'GET /a HTTP/1.1',
): string[] {
  const [line, host, ...others] = written(lines, change, first);
  assert.deepEqual([line, host], [first.replace('1.0', '1.1'), HOST]);
  return others;
}

function written(lines: readonly string[], change: Partial<Forwarding>, first: string): string[] {
  const head = requestHeadOf(`${[first, HOST, ...lines].join('\r\n')}\r\n\r\n`);
  const method = head && knownMethod(head);
  const judged = head && method && judgeRequest(head, method);
  assert.ok(head && judged, lines.join());
  return linesOf(writeRequestHead(out, head, judged, { ...usual, ...change }));
}

/** The lines of the head that was written, which ends with a blank one. */
function linesOf(length: number): string[] {
  const text = out.toString('latin1', 0, length);
  assert.ok(text.endsWith('\r\n\r\n'), text);
  return text.slice(0, -4).split('\r\n');
}

describe('writeRequestHead()', () => {
  test('keeps order, case and repetitions, and adds the client', () => {
    const lines = ['Accept: a', 'ACCEPT: b', 'X: '];
    assert.deepEqual(passed(lines), [...lines, ...added]);
  });

  test('writes usual space around values', () => {
    const lines = ['A:a', 'B:\tb', 'C:  c', 'D: d ', 'E:', 'F: \t ', 'G: g\th'];
    assert.deepEqual(passed(lines), ['A: a', 'B: b', 'C: c', 'D: d', 'E: ', 'F: ', 'G: g\th', ...added]);
  });

  test('writes another target, and HTTP/1.1', () => {
    const first = (line: string) => written([], {}, line)[0];
    assert.equal(first('GET http://a.test:80/b?c HTTP/1.1'), 'GET /b?c HTTP/1.1');
    assert.equal(first('OPTIONS * HTTP/1.0'), 'OPTIONS * HTTP/1.1');
    assert.equal(first('GET /d HTTP/1.0'), 'GET /d HTTP/1.1');
  });

  test('drops hop-by-hop fields, wherever they are', () => {
    const dropped = [
      'Connection: close, X-Hop ,, x-other',
      'X-Hop: 1',
      'X-OTHER: 1',
      'Keep-Alive: 1',
      'Proxy-Connection: close',
      'Upgrade: websocket',
      'TE: gzip',
      'Trailer: X',
    ];
    assert.deepEqual(passed(dropped), added);
    const between = dropped.flatMap((line, index) => [`A${index}: a`, line, `B${index}: b`]);
    assert.deepEqual(passed(between), [...between.filter(line => /^[AB]\d/.test(line)), ...added]);
  });

  test('keeps the fields that a backend relies on, even if Connection names them', () => {
    const lines = ['Content-Length: 5', 'Cookie: c', 'Authorization: d', 'Content-Type: e'];
    const connection =
      'Connection: host, content-length, cookie, authorization, content-type, x-forwarded-for';
    assert.deepEqual(passed([connection, ...lines]), [...lines, ...added]);
    assert.deepEqual(passed(['Connection: expect', 'Expect: 100-continue']), added);
  });

  test('drops the forwarding fields of a client, in any spelling', () => {
    const names = [
      ['X-Forwarded-For', 'x-forwarded-proto', 'X-FORWARDED-HOST', 'X-Forwarded-Anything', 'Forwarded'],
      ['X_Forwarded_For', 'x-forwarded_for', 'Content_Length', 'Transfer_Encoding', 'Proxy_Connection'],
    ].flat();
    assert.deepEqual(passed(names.map(name => `${name}: forged`)), added);
    assert.deepEqual(passed(['X_Own: 1']), ['X_Own: 1', ...added]);
  });

  test('passes the forwarding fields of a balancer, and appends the client', () => {
    const change = { trustForwarded: true };
    const lines = ['X-Forwarded-For: a, b', 'X-Forwarded-Proto: https', 'X-Forwarded-For: c'];
    assert.deepEqual(passed([...lines, 'Forwarded: for=a', 'X-Forwarded-Host: h'], change), [
      'X-Forwarded-Proto: https',
      'Forwarded: for=a',
      'X-Forwarded-Host: h',
      'X-Forwarded-For: a, b, c, 192.0.2.1',
      'Connection: keep-alive',
    ]);
    assert.deepEqual(passed([], change), added);
    assert.deepEqual(passed(['X_Forwarded_For: forged'], change), added);
  });

  test('writes Connection, Upgrade and the framing', () => {
    const last = (change: Partial<Forwarding>, ...lines: string[]) => passed(lines, change).slice(3);
    assert.deepEqual(last({ keepAlive: false }), ['Connection: close']);
    assert.deepEqual(last({ upgrade: 'websocket' }), ['Upgrade: websocket', 'Connection: Upgrade']);
    const chunked = ['Transfer-Encoding: chunked', 'Connection: keep-alive'];
    assert.deepEqual(last({}, 'transfer-encoding:Chunked'), chunked);
    assert.deepEqual(last({ isEmpty: true }), ['Content-Length: 0', 'Connection: keep-alive']);
  });

  test('passes TE: trailers, Trailer with chunks, and Expect of HTTP/1.1', () => {
    const chunks = 'Transfer-Encoding: chunked';
    assert.ok(passed(['te: gzip, Trailers']).includes('TE: trailers'));
    assert.ok(passed(['Trailer: X', chunks]).includes('Trailer: X'));
    assert.ok(passed(['Expect: 100-continue']).includes('Expect: 100-continue'));
    assert.deepEqual(passed(['Expect: 100-continue'], {}, 'GET /a HTTP/1.0'), added);
  });

  test('writes the framing and the client exactly once, for any fields', () => {
    const name = fc.constantFrom(
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
    const space = fc.constantFrom('', ' ', '  ', '\t');
    const line = fc
      .tuple(name, space, value, space)
      .map(([n, before, v, after]) => `${n}:${before}${v}${after}`);
    fc.assert(
      fc.property(fc.array(line), fc.boolean(), fc.boolean(), (lines, isChunked, trustForwarded) => {
        const all = isChunked ? [...lines, 'Transfer-Encoding: chunked'] : lines;
        const names = passed(all, { trustForwarded }).map(text =>
          text.split(':')[0].toLowerCase().replaceAll('_', '-'),
        );
        const count = (wanted: string) => names.filter(text => text === wanted).length;
        assert.equal(count('transfer-encoding'), isChunked ? 1 : 0);
        for (const once of ['connection', 'x-forwarded-for', 'x-forwarded-host'])
          assert.equal(count(once), 1, once);
        assert.ok(count('x-forwarded-proto') >= 1);
        for (const never of ['upgrade', 'keep-alive']) assert.equal(count(never), 0);
        const accepted = lines.filter(text => text.startsWith('Accept'));
        assert.equal(count('accept'), accepted.length);
      }),
    );
  });
});

function answer(
  lines: readonly string[],
  change: Partial<ResponseForwarding> = {},
  first = 'HTTP/1.1 200 OK',
): string[] {
  // Behind room, as in the read buffer.
  const bytes = ascii(`room${[first, ...lines].join('\r\n')}\r\n\r\n`);
  const head = parseResponseHead(bytes, 4, bytes.length);
  assert.ok(head.kind === 'found');
  const last = ascii('Last: 1\r\n');
  const all = linesOf(
    writeResponseHead(out, head.value, { isUpgrade: false, isChunked: false, last, ...change }),
  );
  assert.equal(all.at(-1), 'Last: 1');
  return all.slice(0, -1);
}

describe('writeResponseHead()', () => {
  const first = 'HTTP/1.1 200 OK';

  test('drops hop-by-hop fields', () => {
    const dropped = ['Connection: X-Hop', 'X-Hop: 1', 'Transfer-Encoding: chunked', 'Keep-Alive: t'];
    assert.deepEqual(answer([...dropped, 'Set-Cookie: a', 'Set-Cookie:b', 'Upgrade: h2', 'X_Own: 1']), [
      first,
      'Set-Cookie: a',
      'Set-Cookie: b',
      'X_Own: 1',
    ]);
  });

  test('writes HTTP/1.1 and a space behind the status', () => {
    assert.deepEqual(answer([], {}, 'HTTP/1.0 404 Not  Found\xe9'), ['HTTP/1.1 404 Not  Found\xe9']);
    assert.deepEqual(answer(['A: b'], {}, 'HTTP/1.1 200'), ['HTTP/1.1 200 ', 'A: b']);
  });

  test('keeps the upgrade of a 101, and Trailer with chunks', () => {
    const upgrade = ['Upgrade: x', 'Connection: upgrade'];
    assert.deepEqual(answer(upgrade, { isUpgrade: true }), [first, 'Upgrade: x', 'Connection: Upgrade']);
    assert.deepEqual(answer(['Trailer: X']), [first]);
    assert.deepEqual(answer(['Trailer: X'], { isChunked: true }), [first, 'Trailer: X']);
  });

  test('drops Content-Length from a response that has no body', () => {
    const line = 'Content-Length: 5';
    for (const status of [103, 204])
      assert.deepEqual(answer([line], {}, `HTTP/1.1 ${status} A`), [`HTTP/1.1 ${status} A`]);
    for (const status of [200, 304])
      assert.deepEqual(answer([line], {}, `HTTP/1.1 ${status} A`), [`HTTP/1.1 ${status} A`, line]);
  });
});

test('trailers() drops fields that belong in the head', () => {
  const names = ['X-Sum', 'Host', 'Content-Length', 'Transfer-Encoding', 'X-Forwarded-For', 'Authorization'];
  const raw = [...names, 'x_forwarded_for', 'Connection', 'Cookie', 'Content_Type', 'Etag'].flatMap(name => [
    name,
    'v',
  ]);
  assert.deepEqual(trailers(raw), [
    ['X-Sum', 'v'],
    ['Etag', 'v'],
  ]);
});
