import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { judgeRequest, type RequestHead } from './judge-request.ts';

function head(request: Partial<RequestHead> = {}): RequestHead {
  return { httpVersion: '1.1', method: 'GET', url: '/', rawHeaders: ['Host', 'a.test'], ...request };
}

const served: Record<
  string,
  readonly [Partial<RequestHead>, host: string, hostHeader: string, target: string]
> = {
  'a path': [{ url: '/a?b=c' }, 'a.test', 'a.test', '/a?b=c'],
  'HTTP/1.0': [{ httpVersion: '1.0' }, 'a.test', 'a.test', '/'],
  'a Host with a port, capitals and a final dot': [
    { rawHeaders: ['hOST', 'A.Test.:8080'] },
    'a.test',
    'A.Test.:8080',
    '/',
  ],
  'an absolute target': [{ url: 'http://a.test/b' }, 'a.test', 'a.test', '/b'],
  'an absolute target without a path': [{ url: 'HTTP://A.TEST' }, 'a.test', 'a.test', '/'],
  'an absolute target with a query alone': [{ url: 'http://a.test?b' }, 'a.test', 'a.test', '/?b'],
  'OPTIONS *': [{ method: 'OPTIONS', url: '*' }, 'a.test', 'a.test', '*'],
  'OPTIONS of an absolute target': [{ method: 'OPTIONS', url: 'http://a.test' }, 'a.test', 'a.test', '*'],
  'a length': [{ rawHeaders: ['Host', 'a.test', 'Content-Length', '5'] }, 'a.test', 'a.test', '/'],
  chunks: [{ rawHeaders: ['Host', 'a.test', 'Transfer-Encoding', 'Chunked'] }, 'a.test', 'a.test', '/'],
};

const bad: Record<string, Partial<RequestHead>> = {
  'no Host': { rawHeaders: [] },
  'two Hosts': { rawHeaders: ['Host', 'a.test', 'HOST', 'a.test'] },
  'an invalid Host': { rawHeaders: ['Host', 'a.test,b.test'] },
  'HTTP/0.9': { httpVersion: '0.9' },
  'HTTP/2.0': { httpVersion: '2.0' },
  'another host in the target': { url: 'http://b.test/' },
  'https in the target': { url: 'https://a.test/' },
  'an authority as the target': { url: 'a.test:80' },
  'GET *': { url: '*' },
  'an empty target': { url: '' },
  'a fragment': { url: '/a#b' },
  'a space in the target': { url: '/a b' },
  'a high byte in the target': { url: '/\xe4' },
  'a length beside chunks': {
    rawHeaders: ['Host', 'a.test', 'Content-Length', '5', 'Transfer-Encoding', 'chunked'],
  },
  'two lengths': { rawHeaders: ['Host', 'a.test', 'Content-Length', '5', 'content-length', '5'] },
  'chunks twice': {
    rawHeaders: ['Host', 'a.test', 'Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked'],
  },
  'another coding': { rawHeaders: ['Host', 'a.test', 'Transfer-Encoding', 'gzip, chunked'] },
  'chunks in HTTP/1.0': {
    httpVersion: '1.0',
    rawHeaders: ['Host', 'a.test', 'Transfer-Encoding', 'chunked'],
  },
};

describe('judgeRequest() serves', () => {
  for (const [what, [request, host, hostHeader, target]] of Object.entries(served))
    test(what, () => assert.deepEqual(judgeRequest(head(request)), { host, hostHeader, target }));
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
      fc.constantFrom('1.1', '1.0', '0.9', '2.0'),
      fc.constantFrom('GET', 'OPTIONS', 'POST'),
      pieces,
      fc.array(fc.tuple(names, pieces), { maxLength: 4 }),
      (httpVersion, method, url, headers) => {
        const judged = judgeRequest({ httpVersion, method, url, rawHeaders: headers.flat() });
        if (judged === undefined) return;
        assert.equal(headers.filter(([name]) => name.toLowerCase() === 'host').length, 1);
        assert.match(judged.host, /^[a-z0-9._:-]+$/);
        assert.match(judged.target, /^(\/[!"$-~]*|\*)$/);
      },
    ),
    { numRuns: 2000 },
  );
});
