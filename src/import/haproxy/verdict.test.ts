import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseCidr } from '../../wire/ip-address.ts';
import { and, clients, complement, intersection, not, or } from './verdict.ts';

const cidr = fc
  .tuple(fc.nat(255), fc.nat(3), fc.integer({ min: 0, max: 16 }))
  .map(([a, b, prefix]) => `${a}.${b}.0.0/${prefix}`);
const cidrs = fc.array(cidr, { minLength: 1, maxLength: 4 });
const address = fc.tuple(fc.nat(255), fc.nat(7)).map(([a, b]) => `${a}.${b}.1.2`);

function has(list: readonly string[], ip: string): boolean {
  return intersection(list, [`${ip}/32`]).length > 0;
}

test('complement() has exactly the other addresses', () => {
  assert.deepEqual(complement(['128.0.0.0/1', '::/0']), ['0.0.0.0/1']);
  fc.assert(
    fc.property(cidrs, address, (list, ip) => {
      const others = complement(list) ?? [];
      assert.ok(others.every(one => parseCidr(one) !== undefined));
      assert.equal(has(others, ip), !has(list, ip));
      assert.ok(others.includes('::/0'));
    }),
  );
});

test('and(), or() and not() agree with what each address would get', () => {
  const is = (verdict: ReturnType<typeof not>, ip: string) =>
    typeof verdict === 'object' ? has(verdict.in, ip) : verdict === 'yes';
  fc.assert(
    fc.property(cidrs, cidrs, address, (some, others, ip) => {
      const [a, b] = [clients(some), clients(others)];
      assert.equal(is(and(a, not(b)), ip), is(a, ip) && !is(b, ip));
      assert.equal(is(or(not(a), b), ip), !is(a, ip) || is(b, ip));
    }),
  );
});
