import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ascii, helloSamples } from './hello.samples.ts';
import { recognize } from './recognize.ts';

function recognizeText(text: string): string {
  return recognize(ascii(text), 0, text.length);
}

/** The shortest text that decides, and the decision: one byte less is `incomplete`. */
const deciding: readonly (readonly [text: string, protocol: string])[] = [
  ['\x16', 'tls'],
  ['\r\n\r\n\0\r\nQUIT\n', 'proxy'],
  ['PROXY ', 'proxy'],
  ['CONNECT ', 'connect'],
  ['PRI * HTTP/2', 'h2'],
  ['GET ', 'http'],
  ['POST ', 'http'],
  ['PUT ', 'http'],
  ['PATCH ', 'http'],
  ['PROPFIND ', 'http'],
  ['PRI /', 'http'],
  ['PRI * HTTP/1', 'http'],
  ['CONNECTX ', 'http'],
  ['CONNEC ', 'http'],
  ['PROXYX ', 'http'],
  ['x ', 'http'],
  ['ABCDEFGHIJKLMNOPQRST ', 'http'],
  ['ABCDEFGHIJKLMNOPQRSTU', 'unknown'],
  ['\x15', 'unknown'],
  ['\x80', 'unknown'],
  [' ', 'unknown'],
  ['\n', 'unknown'],
  ['\r\r', 'unknown'],
  ['\r\n\r\n\0\r\nQUIX', 'unknown'],
  ['GET\t', 'unknown'],
  ['GET\r', 'unknown'],
  ['SSH-2.0-OpenSSH_9\r', 'unknown'],
  ['connect:', 'unknown'],
];

for (const [text, protocol] of deciding) {
  test(`recognize() returns ${protocol} at ${JSON.stringify(text)} and asks for more before`, () => {
    assert.equal(recognizeText(text), protocol);
    for (let to = 0; to < text.length; to++) assert.equal(recognizeText(text.slice(0, to)), 'incomplete');
  });
}

test('recognize() needs one byte of any real hello', () => {
  for (const sample of helloSamples) assert.equal(recognize(sample.bytes, 0, 1), 'tls');
});

test('recognize() keeps its decision, wherever the bytes are and whatever surrounds them', () => {
  const start = fc.constantFrom(...deciding.map(([text]) => [...ascii(text)]));
  const bytes = fc.oneof(fc.uint8Array({ maxLength: 30 }), start);
  fc.assert(
    fc.property(
      bytes,
      fc.uint8Array({ maxLength: 9 }),
      fc.uint8Array({ maxLength: 30 }),
      (body, before, after) => {
        const buffer = Uint8Array.from([...before, ...body, ...after]);
        const answer = recognize(buffer, before.length, before.length + body.length);
        assert.equal(answer, recognize(Uint8Array.from(body), 0, body.length));
        if (answer !== 'incomplete') assert.equal(recognize(buffer, before.length, buffer.length), answer);
      },
    ),
    { numRuns: 2000 },
  );
});
