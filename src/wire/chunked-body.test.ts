import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readChunkedBody, startChunkedBody } from './chunked-body.ts';

interface Read {
  readonly data: string;
  readonly trailers?: readonly string[];
  /** Bytes after the end. */
  readonly rest?: string;
  readonly fault?: string;
}

/** Reads pieces, as they would arrive from a socket. */
function read(pieces: readonly string[]): Read {
  const body = startChunkedBody();
  let data = '';
  for (const [index, piece] of pieces.entries()) {
    const bytes = Buffer.from(piece, 'latin1');
    for (let at = 0; ; ) {
      const part = readChunkedBody(body, bytes, at, bytes.length);
      if (part.kind === 'incomplete') break;
      if (part.kind === 'reject') return { data, fault: part.reason };
      if (part.kind === 'end') {
        const rest = piece.slice(part.end) + pieces.slice(index + 1).join('');
        return { data, trailers: part.trailers, rest };
      }
      data += piece.slice(part.from, part.to);
      at = part.to;
    }
  }
  return { data };
}

/** Splits the text at these fractions of its length. */
function cut(text: string, shares: readonly number[]): string[] {
  const at = [0, ...shares.map(share => Math.floor(share * text.length)), text.length];
  at.sort((a, b) => a - b);
  return at.slice(1).map((to, i) => text.slice(at[i], to));
}

const share = fc.double({ min: 0, max: 1, noNaN: true });

test('readChunkedBody() reads the same for any split of the bytes', () => {
  const chunk = fc.string({ minLength: 1, maxLength: 40, unit: 'binary-ascii' });
  fc.assert(
    fc.property(fc.array(chunk), fc.array(share), fc.boolean(), (chunks, shares, hasTrailers) => {
      const framed = chunks.map((text, i) => {
        const size = text.length.toString(16);
        return `${i % 2 === 0 ? size : `00${size.toUpperCase()};a="b"`}\r\n${text}\r\n`;
      });
      const trailers = hasTrailers ? 'A: 1\r\nb:\t2 \r\n' : '';
      const wanted = {
        data: chunks.join(''),
        trailers: hasTrailers ? ['A', '1', 'b', '2'] : [],
        rest: 'NEXT',
      };
      assert.deepEqual(read(cut(`${framed.join('')}0\r\n${trailers}\r\nNEXT`, shares)), wanted);
    }),
  );
});

test('readChunkedBody() is incomplete on every proper prefix', () => {
  const text = '5;x\r\nhello\r\n0\r\nA: 1\r\n\r\n';
  for (let length = 0; length < text.length; length++) {
    const { trailers, fault } = read([text.slice(0, length)]);
    assert.deepEqual([trailers, fault], [undefined, undefined]);
  }
});

for (const [fault, text] of [
  ['chunk-size', '\r\n'],
  ['chunk-size', ';a\r\n'],
  ['chunk-size', '-1\r\n'],
  ['chunk-size', '0x5\r\n'],
  ['chunk-size', ' 5\r\n'],
  ['chunk-size', '5 \r\n'],
  ['chunk-size', '5\nhello'],
  ['chunk-size', '5\r\r\n'],
  ['chunk-size', `${'0'.repeat(12)}\r\n`],
  ['chunk-extension', '5;a\nhello'],
  ['chunk-extension', `5;${'a'.repeat(16_385)}`],
  ['chunk-end', '5\r\nhello!'],
  ['chunk-end', '5\r\nhello\n'],
  ['trailer', '0\r\nA b: c\r\n\r\n'],
  ['trailer', '0\r\nA\r\n\r\n'],
  ['trailer', '0\r\nA: b\nC: d\r\n\r\n'],
  ['trailer', '0\r\nA: b\n'],
  ['trailer', '0\r\nA: b\rC'],
  ['trailer', '0\r\n\n'],
  ['chunk-extension', '1;a\0\r\n'],
  ['trailers-too-long', `0\r\nA: ${'b'.repeat(16_384)}`],
] as const) {
  test(`readChunkedBody() refuses ${JSON.stringify(text.slice(0, 30))} as ${fault}`, () => {
    assert.equal(read([text]).fault, fault);
    assert.equal(read(text.split('')).fault, fault);
  });
}

test('readChunkedBody() never throws on any bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary-ascii', maxLength: 200 }), fc.array(share), (text, shares) => {
      assert.deepEqual(read(cut(text, shares)), read([text]));
    }),
  );
});
