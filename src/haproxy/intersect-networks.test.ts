import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { compileAllowList } from '../gateway/table/allow-list.ts';
import { parseIp } from '../wire/ip-address.ts';
import { intersectNetworks } from './intersect-networks.ts';

test('intersectNetworks() keeps the smaller of two networks, and everybody is the other list', () => {
  assert.deepEqual(intersectNetworks(['10.0.0.0/8', '192.0.2.0/24'], ['10.1.0.0/16', '::/0']), [
    '10.1.0.0/16',
  ]);
  assert.deepEqual(intersectNetworks(['10.0.0.0/8'], undefined), ['10.0.0.0/8']);
  assert.deepEqual(intersectNetworks(['10.0.0.0/8'], ['::/0']), []);
  assert.deepEqual(intersectNetworks(['10.0.0.0/8'], ['10.0.0.0/8']), ['10.0.0.0/8']);
  assert.equal(intersectNetworks(undefined, undefined), undefined);
});

// Few different bits, so that networks contain each other.
const address = fc.tuple(
  fc.constantFrom(10, 11, 192),
  fc.constantFrom(0, 1, 129),
  fc.constantFrom(0, 64, 255),
);
const ipv4 = address.map(bytes => `${bytes.join('.')}.7`);
const ipv6 = address.map(([a, b, c]) => `2001:db8:${a}:${b}::${c}`);
const network = fc.oneof(
  fc.tuple(ipv4, fc.integer({ min: 0, max: 32 })).map(([ip, prefix]) => `${ip}/${prefix}`),
  fc.tuple(ipv6, fc.integer({ min: 0, max: 128 })).map(([ip, prefix]) => `${ip}/${prefix}`),
  ipv4,
);
const list = fc.option(fc.array(network, { maxLength: 6 }), { nil: undefined });

test('intersectNetworks() admits who both lists admit, and nobody else', () => {
  fc.assert(
    fc.property(list, list, fc.array(fc.oneof(ipv4, ipv6), { minLength: 1 }), (a, b, clients) => {
      const [both, first, second] = [intersectNetworks(a, b), a, b].map(compileAllowList);
      for (const text of clients) {
        const client = parseIp(text) as Uint8Array;
        const expected = [first, second].every(one => one?.admits(client, 0) ?? true);
        assert.equal(both?.admits(client, 0) ?? true, expected, text);
      }
    }),
    { numRuns: 500 },
  );
});
