import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseIp } from '../../wire/ip-address.ts';
import { hashBytes, hashText, pickBest, rankAll, score } from './rendezvous.ts';

const uint32 = fc.integer({ min: 0, max: 0xffffffff });
const pool = fc.uniqueArray(uint32, { minLength: 1, maxLength: 10 }).map(hashes => Uint32Array.from(hashes));

// Computed by another program from the definition. Replicas of different versions must agree: changing these values
// would move clients during every upgrade.
test('hashText() returns the known values', () => {
  const answers = [
    ['', 0xab3e7c0b],
    ['a', 0x1a80b1b3],
    ['foobar', 0x0c0da6dc],
    ['192.168.125.30:6443', 0x71a36ffb],
    ['cp1.lab:6443', 0xc35a7015],
    ['api.managed1.linuxera.lab', 0x467d6d79],
    ['größe.example', 0x6d510e42],
    ['😀', 0x3303a80a],
  ] as const;
  for (const [text, answer] of answers) assert.equal(hashText(text), answer, text);
});

test('hashBytes() returns the known values', () => {
  assert.equal(hashAddress('192.0.2.7'), 0x1101f07e);
  assert.equal(hashAddress('2001:db8::1'), 0xff0fbbef);
});

test('score() returns the known values', () => {
  assert.equal(score(0, 0), 0);
  assert.equal(score(1, 0), 0x2fef5c8f);
  assert.equal(score(0, 1), 0x514e28b7);
  assert.equal(score(0xffffffff, 0xffffffff), 0xce2d4699);
  assert.equal(score(0x12345678, 0x9abcdef0), 0xf7b45ce0);
});

test('rankAll() returns the known order', () => {
  const backends = backendsOf(5);
  assert.deepEqual(rankAll(hashAddress('192.0.2.7'), backends), [3, 1, 0, 4, 2]);
  assert.deepEqual(rankAll(hashAddress('192.0.2.8'), backends), [1, 0, 3, 4, 2]);
  assert.deepEqual(rankAll(hashAddress('2001:db8::1'), backends), [4, 1, 3, 2, 0]);
  assert.deepEqual(rankAll(hashAddress('10.1.2.3'), backends), [2, 3, 4, 1, 0]);
});

test('hashText() equals hashBytes() of the UTF-8 bytes, also for lone surrogates', () => {
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom('a', '\ud83d', '\ude00') }),
  );
  fc.assert(
    fc.property(text, fc.nat({ max: 9 }), (text, offset) => {
      const encoded = new TextEncoder().encode(text);
      const bytes = new Uint8Array(encoded.length + offset + 3).fill(0xaa);
      bytes.set(encoded, offset);
      assert.equal(hashText(text), hashBytes(bytes, offset, offset + encoded.length));
    }),
  );
});

test('score() has no ties between backends with different hashes', () => {
  fc.assert(fc.property(uint32, uint32, uint32, (key, a, b) => a === b || score(key, a) !== score(key, b)));
});

test('pickBest() does not depend on the order of the list', () => {
  fc.assert(
    fc.property(uint32, pool, fc.nat(), (key, backends, by) => {
      const best = backends[pickBest(key, backends)];
      const shift = by % backends.length;
      const rotated = Uint32Array.from([...backends.slice(shift), ...backends.slice(0, shift)]);
      assert.equal(rotated[pickBest(key, rotated)], best);
      const reversed = backends.toReversed();
      assert.equal(reversed[pickBest(key, reversed)], best);
    }),
  );
});

test('pickBest() moves only the clients of a backend that is removed or skipped', () => {
  fc.assert(
    fc.property(uint32, pool, fc.nat(), (key, backends, which) => {
      const gone = which % backends.length;
      const best = pickBest(key, backends);
      const rest = backends.filter((_, i) => i !== gone);
      const bestOfRest = pickBest(key, rest);
      const bestUnskipped = pickBest(key, backends, i => i === gone);
      assert.equal(rest[bestOfRest], backends[bestUnskipped]);
      if (best !== gone) assert.equal(bestUnskipped, best);
      else assert.notEqual(bestUnskipped, gone);
    }),
  );
});

test('pickBest() returns -1 when every backend is skipped', () => {
  assert.equal(pickBest(1, new Uint32Array(0)), -1);
  assert.equal(
    pickBest(1, Uint32Array.of(1, 2, 3), () => true),
    -1,
  );
  assert.equal(pickBest(0, Uint32Array.of(0)), 0, 'a score of zero is a score');
});

test('rankAll() starts with pickBest() and continues with its choice among the rest', () => {
  fc.assert(
    fc.property(uint32, pool, (key, backends) => {
      const skipped = new Set<number>();
      for (const index of rankAll(key, backends)) {
        assert.equal(
          pickBest(key, backends, i => skipped.has(i)),
          index,
        );
        skipped.add(index);
      }
      assert.equal(skipped.size, backends.length);
    }),
  );
});

test('pickBest() spreads 10,000 neighbouring clients evenly over 3 to 10 backends', () => {
  const clients = Array.from({ length: 10_000 }, (_, i) => hashAddress(`10.20.${i >> 8}.${i & 255}`));
  for (let count = 3; count <= 10; count++) {
    const backends = backendsOf(count);
    const served = new Float64Array(count);
    for (const client of clients) served[pickBest(client, backends)]++;
    const expected = clients.length / count;
    const chiSquare = served.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
    // The 0.999 quantile of chi-square with 9 degrees of freedom is 27.9.
    assert.ok(chiSquare < 27.9, `${count} backends: chi-square ${chiSquare}`);
    for (const n of served)
      assert.ok(Math.abs(n - expected) < 0.1 * expected, `${count} backends: ${served.join(' ')}`);
  }
});

function backendsOf(count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => hashText(`10.0.0.${i + 1}:6443`));
}

function hashAddress(text: string): number {
  const bytes = parseIp(text);
  assert.ok(bytes);
  return hashBytes(bytes, 0, 16);
}
