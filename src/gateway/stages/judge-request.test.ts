import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { requestHeadOf } from '../../wire/http-heads.samples.ts';
import { type JudgedRequest, judgeRequest, knownMethod, type RequestedHost } from './judge-request.ts';

interface Request {
  readonly version?: '1.0' | '1.1';
  readonly method?: string;
  readonly target?: string;
  readonly headers?: readonly string[];
}

/** As a connection does: the head is parsed, then judged. */
function judge(request: Request, last?: RequestedHost): JudgedRequest | undefined {
  const { version = '1.1', method = 'GET', target = '/', headers = ['Host', 'a.test'] } = request;
  let text = `${method} ${target} HTTP/${version}\r\n`;
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  const head = requestHeadOf(`${text}\r\n`);
  const known = head && knownMethod(head);
  return head && (known === undefined ? undefined : judgeRequest(head, known, last));
}

const served: Record<string, readonly [Request, host: string, hostHeader: string, target: string]> = {
  'a path': [{ target: '/a?b=c' }, 'a.test', 'a.test', '/a?b=c'],
  'HTTP/1.0': [{ version: '1.0' }, 'a.test', 'a.test', '/'],
  'a Host with a port, capitals and a final dot': [
    { headers: ['hOST', 'A.Test.:8080'] },
    'a.test',
    'A.Test.:8080',
    '/',
  ],
  'an absolute target': [{ target: 'http://a.test/b' }, 'a.test', 'a.test', '/b'],
  'an absolute target without a path': [{ target: 'HTTP://A.TEST' }, 'a.test', 'a.test', '/'],
  'an absolute target with a query alone': [{ target: 'http://a.test?b' }, 'a.test', 'a.test', '/?b'],
  'OPTIONS *': [{ method: 'OPTIONS', target: '*' }, 'a.test', 'a.test', '*'],
  'OPTIONS of an absolute target': [{ method: 'OPTIONS', target: 'http://a.test' }, 'a.test', 'a.test', '*'],
  'a length': [{ headers: ['Host', 'a.test', 'Content-Length', '5'] }, 'a.test', 'a.test', '/'],
  chunks: [{ headers: ['Host', 'a.test', 'Transfer-Encoding', 'Chunked'] }, 'a.test', 'a.test', '/'],
};

const bad: Record<string, Request> = {
  'no Host': { headers: [] },
  'two Hosts': { headers: ['Host', 'a.test', 'HOST', 'a.test'] },
  'an invalid Host': { headers: ['Host', 'a.test,b.test'] },
  'an unknown method': { method: 'BREW' },
  'CONNECT behind another request': { method: 'CONNECT', target: 'a.test:80' },
  'another host in the target': { target: 'http://b.test/' },
  'https in the target': { target: 'https://a.test/' },
  'an authority as the target': { target: 'a.test:80' },
  'GET *': { target: '*' },
  'an empty target': { target: '' },
  'a fragment': { target: '/a#b' },
  'a space in the target': { target: '/a b' },
  'a high byte in the target': { target: '/\xe4' },
  'a length beside chunks': {
    headers: ['Host', 'a.test', 'Content-Length', '5', 'Transfer-Encoding', 'chunked'],
  },
  'two lengths': { headers: ['Host', 'a.test', 'Content-Length', '5', 'content-length', '5'] },
  'chunks twice': {
    headers: ['Host', 'a.test', 'Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked'],
  },
  'a list of lengths': { headers: ['Host', 'a.test', 'Content-Length', '5, 5'] },
  'a length that is not exact': { headers: ['Host', 'a.test', 'Content-Length', '9'.repeat(16)] },
  'a signed length': { headers: ['Host', 'a.test', 'Content-Length', '+5'] },
  'another coding': { headers: ['Host', 'a.test', 'Transfer-Encoding', 'gzip, chunked'] },
  'chunks in HTTP/1.0': {
    version: '1.0',
    headers: ['Host', 'a.test', 'Transfer-Encoding', 'chunked'],
  },
};

describe('judgeRequest() serves', () => {
  for (const [what, [request, host, hostHeader, target]] of Object.entries(served))
    test(what, () => {
      const judged = judge(request);
      assert.ok(judged);
      assert.deepEqual(
        [judged.host.name, judged.host.header, judged.target ?? request.target ?? '/'],
        [host, hostHeader, target],
      );
      assert.equal(Buffer.from(judged.host.forwardedLine).toString(), `X-Forwarded-Host: ${hostHeader}\r\n`);
    });
});

describe('judgeRequest() refuses', () => {
  for (const [what, request] of Object.entries(bad))
    test(what, () => assert.equal(judge(request), undefined));
});

test('judgeRequest() never throws, and serves only requests with one host and an unambiguous target', () => {
  const text = fc.string({ unit: 'binary-ascii', maxLength: 20 });
  const piece = fc.oneof(
    text,
    fc.constantFrom('/', '*', 'http://a.test', 'a.test', ':80', '//', '?', '@', '#'),
  );
  const pieces = fc.array(piece, { maxLength: 4 }).map(parts => parts.join(''));
  const names = fc.oneof(
    text.filter(name => name !== ''),
    fc.constantFrom('Host', 'host', 'Content-Length', 'Transfer-Encoding'),
  );
  fc.assert(
    fc.property(
      fc.constantFrom('1.1' as const, '1.0' as const),
      fc.constantFrom('GET', 'OPTIONS', 'POST'),
      pieces,
      fc.array(fc.tuple(names, pieces), { maxLength: 4 }),
      (version, method, target, headers) => {
        const judged = judge({ version, method, target, headers: headers.flat() });
        if (judged === undefined) return;
        assert.equal(headers.filter(([name]) => name.toLowerCase() === 'host').length, 1);
        assert.match(judged.host.name, /^[a-z0-9._:-]+$/);
        assert.match(judged.target ?? target, /^(\/[!"$-~]*|\*)$/);
      },
    ),
    { numRuns: 2000 },
  );
});

test('judgeRequest() takes the last host again if Host is the same, and only then', () => {
  const last = judge({ headers: ['Host', 'A.test:80'] })?.host;
  assert.equal(judge({ target: '/b', headers: ['host', 'A.test:80'] }, last)?.host, last);
  for (const header of ['a.test:80', 'A.test:8', 'A.test:801', 'B.test:80']) {
    const host = judge({ headers: ['Host', header] }, last)?.host;
    assert.deepEqual([host?.header, host === last], [header, false]);
  }
  // The authority of an absolute target must be that of Host, however the last request was.
  assert.equal(judge({ target: 'http://b.test/', headers: ['Host', 'A.test:80'] }, last), undefined);
  assert.equal(judge({ target: 'b.test:80', headers: ['Host', 'A.test:80'] }, last), undefined);
});

for (const [what, request, expected] of [
  ['HTTP/1.1', {}, true],
  ['HTTP/1.0', { version: '1.0' }, false],
  ['close', { headers: ['Host', 'a', 'Connection', 'Close'] }, false],
  ['close in a list', { headers: ['Host', 'a', 'Connection', 'x, close'] }, false],
  ['close in a second field', { headers: ['Host', 'a', 'Connection', 'x', 'connection', 'close'] }, false],
  ['keep-alive', { version: '1.0', headers: ['Host', 'a', 'Connection', 'Keep-Alive'] }, true],
] as const)
  test(`judgeRequest() tells whether the client goes on: ${what}`, () =>
    assert.equal(judge(request)?.keepAlive, expected));

test('judgeRequest() reports an upgrade only if Connection names it', () => {
  const upgrade = ['Host', 'a', 'Upgrade', 'websocket', 'Upgrade', 'other'];
  assert.equal(judge({ headers: upgrade })?.upgrade, undefined);
  assert.equal(judge({ headers: [...upgrade, 'Connection', 'x,UPGRADE'] })?.upgrade, 'websocket, other');
});
