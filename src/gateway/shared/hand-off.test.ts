import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { buildProxyV2, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { buildHandOff, readHandOff, readRowHeader, rowHeader } from './hand-off.ts';

const int32 = fc.integer({ min: 0, max: 2 ** 31 - 1 });
const endpoint = fc.record({
  address: fc.oneof(
    fc.uint8Array({ minLength: 4, maxLength: 4 }),
    fc.uint8Array({ minLength: 16, maxLength: 16 }),
  ),
  port: fc.integer({ min: 0, max: 65_535 }),
});
const handOff = fc.record({
  worker: int32,
  handle: int32,
  generation: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  listener: int32,
  trustForwarded: fc.boolean(),
  isH2: fc.boolean(),
  isTunnelled: fc.boolean(),
  lentBehind: fc.option(int32, { nil: undefined }),
});

test('readHandOff() reads what buildHandOff() wrote', () => {
  fc.assert(
    fc.property(endpoint, handOff, (source, expected) => {
      const header = buildHandOff(source, { ...source, port: 80 }, expected);
      const bytes = Buffer.concat([header, Buffer.from('GET / HTTP/1.1\r\n')]);
      const parsed = parseProxyHeader(bytes, 0, bytes.length);
      assert.ok(parsed.kind === 'found');
      assert.equal(parsed.value.end, header.length);
      assert.deepEqual(readHandOff(parsed.value), { ...expected });
      assert.deepEqual(Buffer.from(parsed.value.source?.address ?? []), Buffer.from(source.address));
      assert.equal(parsed.value.source?.port, source.port);
    }),
  );
});

test('readHandOff() accepts no other header', () => {
  const source = { address: Uint8Array.of(192, 0, 2, 1), port: 1 };
  for (const tlvs of [
    [],
    [{ type: 0xe4, value: new Uint8Array(16) }],
    [{ type: 0x20, value: new Uint8Array(21) }],
  ]) {
    const bytes = buildProxyV2({ source, destination: source, tlvs });
    const parsed = parseProxyHeader(bytes, 0, bytes.length);
    assert.ok(parsed.kind === 'found');
    assert.equal(readHandOff(parsed.value), undefined);
  }
});

test('readRowHeader() finds the header that rowHeader() wrote in an answer, and nothing otherwise', () => {
  fc.assert(
    fc.property(
      fc.record(
        { worker: int32, handle: int32, generation: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
        { noNullPrototype: true },
      ),
      row => {
        assert.deepEqual(readRowHeader(`HTTP/1.1 200 OK\r\n${rowHeader(row)}\r\n`), row);
      },
    ),
  );
  assert.equal(readRowHeader('HTTP/1.1 200 OK\r\n\r\n'), undefined);
});
