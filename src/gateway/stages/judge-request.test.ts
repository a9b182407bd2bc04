import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { RequestHead } from '../../wire/http-request.ts';
import { judgeRequest } from './judge-request.ts';

function head(request: Partial<RequestHead> = {}): RequestHead {
  return { version: '1.1', method: 'GET', target: '/', headers: ['Host', 'a.test'], end: 0, ...request };
}

const served: Record<
  string,
  readonly [Partial<RequestHead>, host: string, hostHeader: string, target: string]
> = {
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

const bad: Record<string, Partial<RequestHead>> = {
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
  'another coding': { headers: ['Host', 'a.test', 'Transfer-Encoding', 'gzip, chunked'] },
  'chunks in HTTP/1.0': {
    version: '1.0',
    headers: ['Host', 'a.test', 'Transfer-Encoding', 'chunked'],
  },
};

describe('judgeRequest() serves', () => {
  for (const [what, [request, host, hostHeader, target]] of Object.entries(served))
    test(what, () => {
      const judged = judgeRequest(head(request));
      assert.deepEqual([judged?.host, judged?.hostHeader, judged?.target], [host, hostHeader, target]);
    });
});

describe('judgeRequest() refuses', () => {
  for (const [what, request] of Object.entries(bad))
    test(what, () => assert.equal(judgeRequest(head(request)), undefined));
});

test('judgeRequest() never throws, and serves only requests with one host and an unambiguous target', () => {
  const text = fc.string({ unit: 'binary-ascii', maxLength: 20 });
  const piece = fc.oneof(
    text,
    fc.constantFrom('/', '*', 'http://a.test', 'a.test', ':80', '//', '?', '@', '#'),
  );
  const pieces = fc.array(piece, { maxLength: 4 }).map(parts => parts.join(''));
  const names = fc.oneof(text, fc.constantFrom('Host', 'host', 'Content-Length', 'Transfer-Encoding'));
  fc.assert(
    fc.property(
      fc.constantFrom('1.1' as const, '1.0' as const),
      fc.constantFrom('GET', 'OPTIONS', 'POST'),
      pieces,
      fc.array(fc.tuple(names, pieces), { maxLength: 4 }),
      (version, method, target, headers) => {
        const judged = judgeRequest({ version, method, target, headers: headers.flat(), end: 0 });
        if (judged === undefined) return;
        assert.equal(headers.filter(([name]) => name.toLowerCase() === 'host').length, 1);
        assert.match(judged.host, /^[a-z0-9._:-]+$/);
        assert.match(judged.target, /^(\/[!"$-~]*|\*)$/);
      },
    ),
    { numRuns: 2000 },
  );
});
