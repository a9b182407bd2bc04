import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { followRequests, isInsideRequest, startRequestStream, takeHead } from './request-stream.ts';

const get = 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n';
const post = (body: string, ...lines: readonly string[]) =>
  `${['POST / HTTP/1.1', 'Host: a.test', ...lines].join('\r\n')}\r\n\r\n${body}`;
const chunked = (body: string) => post(body, 'Transfer-Encoding: chunked');

interface Followed {
  readonly heads: number;
  readonly fault: string | undefined;
  readonly isInside: boolean;
}

function follow(...pieces: readonly string[]): Followed {
  const stream = startRequestStream();
  for (const piece of pieces) followRequests(stream, Buffer.from(piece, 'latin1'));
  return { heads: stream.heads, fault: stream.fault, isInside: isInsideRequest(stream) };
}

const whole = (heads: number): Followed => ({ heads, fault: undefined, isInside: false });
const broken = (heads: number): Followed => ({ heads, fault: 'request', isInside: false });

const streams: Record<string, { readonly bytes: string; readonly read: Followed }> = {
  nothing: { bytes: '', read: whole(0) },
  'one head': { bytes: get, read: whole(1) },
  'many heads': { bytes: get.repeat(5), read: whole(5) },
  'a body with a request in it': { bytes: post(get, `Content-Length: ${get.length}`) + get, read: whole(2) },
  'a body of no bytes': { bytes: post('', 'Content-Length: 0') + get, read: whole(2) },
  'chunks with a request in them': {
    bytes: chunked(`${get.length.toString(16)}\r\n${get}\r\n0\r\n\r\n`) + get,
    read: whole(2),
  },
  'chunks with trailers': { bytes: chunked('2\r\nab\r\n0\r\nX: y\r\n\r\n') + get, read: whole(2) },
  'names in any case, space around values': {
    bytes: post('ab', 'cONTENT-lENGTH: \t2\t ') + post('0\r\n\r\n', 'transfer-encoding:\tCHUNKED '),
    read: whole(2),
  },
  'an empty line between two': { bytes: `${get}\r\n${get}\r\n`, read: whole(2) },
  'two empty lines between two': { bytes: `${get}\r\n\r\n${get}`, read: broken(1) },
  'an empty line in front': { bytes: `\r\n${get}`, read: broken(0) },
  'a bare LF between two': { bytes: `${get}\n${get}`, read: broken(1) },
  'two spaces': { bytes: get + get.replace(' ', '  '), read: broken(1) },
  'two lengths': { bytes: get + post('ab', 'Content-Length: 2', 'Content-Length: 2'), read: broken(1) },
  'length and chunks': {
    bytes: post('0\r\n\r\n', 'Content-Length: 5', 'Transfer-Encoding: chunked'),
    read: broken(0),
  },
  'a length that is none': { bytes: post('ab', 'Content-Length: +2'), read: broken(0) },
  'another coding': { bytes: post('', 'Transfer-Encoding: gzip, chunked'), read: broken(0) },
  'half a head': { bytes: get + get.slice(0, 9), read: { ...whole(1), isInside: true } },
  'half a body': { bytes: post('ab', 'Content-Length: 3'), read: { ...whole(1), isInside: true } },
  'half a chunk': { bytes: chunked('3\r\nab'), read: { ...whole(1), isInside: true } },
  'chunks without their end': { bytes: chunked('2\r\nab\r\n0\r\n'), read: { ...whole(1), isInside: true } },
  'a name that only looks like one': {
    bytes: get.replace('\r\n\r\n', '\r\nX-Content-Length: 9\r\nX: Content-Length: 9\r\n\r\n') + get,
    read: whole(2),
  },
};

describe('followRequests()', () => {
  for (const [what, { bytes, read }] of Object.entries(streams)) {
    test(`${what}: the same in any pieces`, () => {
      assert.deepEqual(follow(bytes), read);
      assert.deepEqual(follow(...bytes), read);
      fc.assert(
        fc.property(fc.array(fc.nat(bytes.length), { maxLength: 6 }), cuts => {
          const at = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
          assert.deepEqual(follow(...at.slice(1).map((to, index) => bytes.slice(at[index], to))), read);
        }),
        { numRuns: 50 },
      );
    });
  }

  test('a body that breaks takes its head with it, unless that was taken', () => {
    const bad = chunked('x\r\n');
    assert.deepEqual(follow(get + bad), broken(1));
    const stream = startRequestStream();
    followRequests(stream, Buffer.from(chunked('')));
    assert.equal(takeHead(stream), true);
    followRequests(stream, Buffer.from('x\r\n'));
    assert.deepEqual([stream.fault, stream.heads, takeHead(stream)], ['body', 0, false]);
  });

  test('looks at nothing behind a fault', () => {
    assert.deepEqual(follow(`${get}\n`, get, get), broken(1));
  });

  test('never throws', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 })), pieces => {
        const stream = startRequestStream();
        followRequests(stream, Buffer.from(chunked('')));
        for (const piece of pieces) followRequests(stream, Buffer.from(piece));
      }),
    );
  });
});
