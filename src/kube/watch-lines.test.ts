import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { WatchLines, WatchLinesError } from './watch-lines.ts';

const MAX = 1000;

function lines(chunks: readonly Buffer[], max = MAX): unknown[] {
  const found: unknown[] = [];
  const parser = new WatchLines(max);
  for (const chunk of chunks) parser.push(chunk, value => found.push(value));
  return found;
}

test('WatchLines finds the same events however they are split, characters among them', () => {
  const event = fc.record(
    {
      type: fc.constantFrom('ADDED', 'DELETED'),
      object: fc.string({ unit: 'grapheme' }),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 6 }), fc.array(fc.nat(), { maxLength: 20 }), (events, cuts) => {
      const bytes = Buffer.from(events.map(each => `${JSON.stringify(each)}\n`).join(''));
      const at = [...new Set(cuts.map(cut => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
      const chunks = [0, ...at].map((from, i) => Buffer.from(bytes.subarray(from, [...at, bytes.length][i])));
      assert.deepEqual(lines(chunks), events);
    }),
  );
});

test('WatchLines keeps the beginning of a line, and not the chunk that it came in', () => {
  const chunk = Buffer.from(`{"a":1}\n{"b":`);
  const parser = new WatchLines(MAX);
  parser.push(chunk, () => {});
  chunk.fill(0);
  const found: unknown[] = [];
  parser.push(Buffer.from('2}\n'), value => found.push(value));
  assert.deepEqual(found, [{ b: 2 }]);
});

test('WatchLines bounds a line, whole or begun', () => {
  const long = Buffer.from('x'.repeat(MAX + 1));
  assert.throws(() => lines([long]), WatchLinesError);
  assert.throws(() => lines([long.subarray(0, MAX / 2), long.subarray(MAX / 2)]), WatchLinesError);
  assert.throws(() => lines([Buffer.concat([long, Buffer.from('\n')])]), WatchLinesError);
  const exact = JSON.stringify('x'.repeat(MAX - 2));
  assert.equal(lines([Buffer.from(`${exact}\n${exact}\n`)]).length, 2);
});

test('WatchLines skips empty lines and refuses what is not JSON', () => {
  assert.deepEqual(lines([Buffer.from('\n{}\n\n')]), [{}]);
  assert.throws(() => lines([Buffer.from('<html>\n')]), WatchLinesError);
});
