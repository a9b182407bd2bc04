import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseProxyHeader } from '../wire/proxy-protocol.ts';
import { buildHandOver, type HandOver, readHandOver, readRowHeader, rowHeader } from './hand-over.ts';

const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });

test('readHandOver() reads what buildHandOver() wrote', () => {
  const endpoint = { address: Uint8Array.of(192, 0, 2, 1), port: 40_000 };
  const told = fc.record<HandOver>(
    {
      worker: int32,
      handle: int32,
      generation: int32,
      listener: int32,
      fromBalancer: fc.boolean(),
      isH2: fc.boolean(),
      isTunnelled: fc.boolean(),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(told, one => {
      const bytes = buildHandOver(endpoint, endpoint, one);
      const header = parseProxyHeader(bytes, 0, bytes.length);
      assert.ok(header.kind === 'found');
      assert.deepEqual(readHandOver(header.value), one);
    }),
  );
});

test('readRowHeader() finds in an answer what rowHeader() wrote, and nothing where it is not', () => {
  const nat = fc.nat();
  fc.assert(
    fc.property(
      fc.record({ worker: nat, handle: nat, generation: int32 }, { noNullPrototype: true }),
      row => {
        assert.deepEqual(readRowHeader(`HTTP/1.1 200 OK\r\n${rowHeader(row)}\r\n`), row);
      },
    ),
  );
  assert.equal(readRowHeader('HTTP/1.1 200 OK\r\n\r\n'), undefined);
});
