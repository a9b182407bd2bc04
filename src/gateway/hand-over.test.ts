import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { buildProxyV2, parseProxyHeader } from '../wire/proxy-protocol.ts';
import { buildHandOver, readHandOver } from './hand-over.ts';

const source = { address: Uint8Array.of(192, 0, 2, 1), port: 1 };
const destination = { address: Uint8Array.of(192, 0, 2, 2), port: 443 };

function read(bytes: Uint8Array) {
  const header = parseProxyHeader(bytes, 0, bytes.length);
  assert.ok(header.kind === 'found');
  return { header: header.value, told: readHandOver(header.value) };
}

test('readHandOver() reads what buildHandOver() has written, with every flag', () => {
  const word = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const told = fc.record(
    {
      worker: fc.nat(1023),
      handle: fc.nat(2 ** 20),
      generation: word,
      listener: fc.nat(1000),
      fromBalancer: fc.boolean(),
      isH2: fc.boolean(),
      isTunnelled: fc.boolean(),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(told, expected => {
      const { header, told } = read(buildHandOver(source, destination, expected));
      assert.deepEqual(told, expected);
      assert.deepEqual([header.source, header.destination], [source, destination]);
    }),
  );
});

test('readHandOver() takes nothing else for one of ours', () => {
  assert.equal(read(buildProxyV2({ source, destination })).told, undefined);
  for (const length of [0, 16, 18]) {
    const tlvs = [{ type: 0xe4, value: new Uint8Array(length) }];
    assert.equal(read(buildProxyV2({ source, destination, tlvs })).told, undefined, `${length} bytes`);
  }
});
