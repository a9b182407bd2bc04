import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { connectName, parseHttpHead } from '../../wire/http-head.ts';
import { buildConnectHead } from './connect-head.ts';

const CONNECT = [':method', 'CONNECT', ':authority', 'lab:443'];

test('buildConnectHead() writes the authority and the headers that a worker reads, and nothing else', () => {
  const head = buildConnectHead([
    ...CONNECT,
    'user-agent',
    'x',
    'x-gardener-destination',
    'outbound|443||lab',
    'host',
    'else',
    'causeway-signature',
    'AbC',
  ]);
  assert.equal(
    Buffer.from(head).toString('latin1'),
    'CONNECT lab:443 HTTP/1.1\r\nX-Gardener-Destination: outbound|443||lab\r\nCauseway-Signature: AbC\r\n\r\n',
  );
});

test('buildConnectHead() keeps a repeated header', () => {
  const head = buildConnectHead([...CONNECT, 'causeway-signature', 'a', 'causeway-signature', 'b']);
  assert.match(Buffer.from(head).toString(), /Causeway-Signature: a\r\nCauseway-Signature: b\r\n\r\n$/);
});

test('buildConnectHead() writes a request that is refused when HTTP/1.1 cannot express the headers', () => {
  const refused: readonly (readonly string[])[] = [
    [':method', 'CONNECT'],
    [':authority', ''],
    [':authority', 'lab:443 HTTP/1.1\r\nX: y'],
    [':authority', 'a b'],
    [':authority', 'l\u00e4b:443'],
    [':authority', 'lab:443', ':authority', 'lab:443'],
    [...CONNECT, 'x-gardener-destination', 'a\r\nb: c'],
    [...CONNECT, 'causeway-signature', '\u00e4'],
  ];
  for (const headers of refused) {
    const head = buildConnectHead(headers);
    assert.equal(parseHttpHead(head, 0, head.length).kind, 'reject', headers.join());
  }
});

test('buildConnectHead() writes one complete head, or one that is refused, for any headers', () => {
  const name = fc.oneof(
    fc.constantFrom(':authority', 'x-gardener-destination', 'causeway-signature'),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(name, fc.string({ unit: 'binary' }))), pairs => {
      const bytes = buildConnectHead(pairs.flat());
      const head = parseHttpHead(bytes, 0, bytes.length);
      assert.notEqual(head.kind, 'incomplete');
      if (head.kind !== 'found') return;
      assert.equal(head.value.end, bytes.length);
      const authorities = pairs.filter(([key]) => key === ':authority');
      assert.deepEqual(
        authorities.map(([, value]) => value),
        [head.value.target],
      );
      connectName(head.value);
    }),
  );
});
