import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ascii } from './hello.samples.ts';
import { MAX_HTTP_HEAD } from './http-head.ts';
import { fieldTexts } from './http-heads.samples.ts';
import { framingOf, parseResponseHead, type ResponseHead } from './http-response.ts';
import type { Parsed } from './parsed.ts';

function parse(text: string): Parsed<ResponseHead> {
  return parseResponseHead(ascii(text), 0, text.length);
}

function head(text: string): ResponseHead {
  const answer = parse(text);
  assert.ok(answer.kind === 'found', JSON.stringify(answer));
  return answer.value;
}

test('parseResponseHead() reads status line and fields as sent, and ends at the blank line', () => {
  const text =
    'HTTP/1.1 404 Not  Found\xe9\r\nDate: today\r\nset-cookie:\t a=1 \r\nSet-Cookie:b\xa0\r\nX:\r\n\r\n';
  const found = head(`${text}body`);
  const { isHttp10, status, end } = found;
  assert.deepEqual({ isHttp10, status, end }, { isHttp10: false, status: 404, end: text.length });
  assert.deepEqual(fieldTexts(found), ['Date', 'today', 'set-cookie', 'a=1', 'Set-Cookie', 'b\xa0', 'X', '']);
});

test('parseResponseHead() accepts a status line without a reason', () => {
  assert.equal(head('HTTP/1.0 200\r\n\r\n').status, 200);
  assert.equal(head('HTTP/1.0 200 \r\n\r\n').status, 200);
});

for (const [reason, text] of [
  ['status-line', '\r\n\r\n'],
  ['status-line', 'HTTP/2 200 OK\r\n\r\n'],
  ['status-line', 'HTTP/1.1 20 OK\r\n\r\n'],
  ['status-line', 'HTTP/1.1 600 OK\r\n\r\n'],
  ['status-line', 'HTTP/1.1  200 OK\r\n\r\n'],
  ['status-line', 'http/1.1 200 OK\r\n\r\n'],
  ['bare-line-feed', 'HTTP/1.1 200 OK\nA: b\r\n'],
  ['bare-carriage-return', 'HTTP/1.1 200 OK\r\nA: b\rc\r\n'],
  ['control-character', 'HTTP/1.1 200 OK\r\nA: \0\r\n'],
  ['folded-line', 'HTTP/1.1 200 OK\r\nA: b\r\n c\r\n'],
  ['field-name', 'HTTP/1.1 200 OK\r\nA : b\r\n'],
  ['field-name', 'HTTP/1.1 200 OK\r\n: b\r\n'],
  ['head-too-long', `HTTP/1.1 200 OK\r\nA: ${'b'.repeat(MAX_HTTP_HEAD)}`],
] as const) {
  test(`parseResponseHead() refuses ${JSON.stringify(text.slice(0, 40))} as ${reason}`, () => {
    assert.deepEqual(parse(text), { kind: 'reject', reason });
  });
}

const framings: readonly (readonly [string, string, string, unknown])[] = [
  ['a length', 'GET', '1.1 200 OK\r\nContent-Length: 5', { body: 5, keepAlive: true }],
  ['chunks', 'GET', '1.1 200 OK\r\nTransfer-Encoding: Chunked', { body: 'chunked', keepAlive: true }],
  ['neither', 'GET', '1.1 200 OK', { body: 'until-close', keepAlive: false }],
  ['HEAD', 'HEAD', '1.1 200 OK\r\nContent-Length: 5', { body: 0, keepAlive: true }],
  ['HEAD with chunks', 'HEAD', '1.1 200 OK\r\nTransfer-Encoding: chunked', { body: 0, keepAlive: true }],
  ['204', 'GET', '1.1 204 No Content', { body: 0, keepAlive: true }],
  ['304 with a length', 'GET', '1.1 304 Not Modified\r\nContent-Length: 5', { body: 0, keepAlive: true }],
  ['close', 'GET', '1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close', { body: 0, keepAlive: false }],
  ['HTTP/1.0', 'GET', '1.0 200 OK\r\nContent-Length: 5', { body: 5, keepAlive: false }],
  [
    'HTTP/1.0 with keep-alive',
    'GET',
    '1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive',
    { body: 5, keepAlive: true },
  ],
  ['length and chunks', 'GET', '1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked', undefined],
  ['two lengths', 'GET', '1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5', undefined],
  ['a list of lengths', 'GET', '1.1 200 OK\r\nContent-Length: 5, 5', undefined],
  ['a signed length', 'GET', '1.1 200 OK\r\nContent-Length: +5', undefined],
  ['an empty length', 'GET', '1.1 200 OK\r\nContent-Length:', undefined],
  ['another coding', 'GET', '1.1 200 OK\r\nTransfer-Encoding: gzip, chunked', undefined],
  [
    'chunked twice',
    'GET',
    '1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
    undefined,
  ],
  ['chunks in HTTP/1.0', 'GET', '1.0 200 OK\r\nTransfer-Encoding: chunked', undefined],
  ['both for HEAD', 'HEAD', '1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked', undefined],
];
for (const [what, method, text, wanted] of framings) {
  test(`framingOf() of ${what}`, () => {
    assert.deepEqual(framingOf(head(`HTTP/${text}\r\n\r\n`), method), wanted);
  });
}
