import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatSignature, parseSignature } from '../wire/signature.ts';
import { clusterKey } from './cluster-key.ts';
import { type Claim, isSignedBy, sign } from './sign.ts';

const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
const secret = Buffer.from('an example secret of 36 bytes, no more');
const nonce = Uint8Array.from({ length: 12 }, (_, i) => i);

const anId = fc.stringMatching(/^[A-Za-z0-9._-]{1,128}$/);
const aSource = fc.record({
  address: fc.oneof(
    fc.uint8Array({ minLength: 4, maxLength: 4 }),
    fc.uint8Array({ minLength: 16, maxLength: 16 }),
  ),
  port: fc.nat({ max: 65_535 }),
});
const aClaim = fc.record({ id: anId, source: fc.option(aSource, { nil: undefined }) });
const aKey = fc.uint8Array({ minLength: 32, maxLength: 32 });
const aNonce = fc.uint8Array({ minLength: 12, maxLength: 12 });
const aTime = fc.maxSafeNat();

function proves(keys: readonly Uint8Array[], claim: Claim, signature: Uint8Array): boolean {
  const parsed = parseSignature(signature);
  return parsed.kind === 'found' && isSignedBy(keys, claim, parsed.value);
}

// Expected values computed with Python's hmac and hashlib, with HKDF written out from RFC 5869.
test('clusterKey() and sign() produce the documented bytes', () => {
  const key = clusterKey(secret, ID);
  assert.equal(Buffer.from(key).toString('base64url'), '9BcEffi3KBiiyEDiuX9HbvfMAPtaBM1RNeI1xK8T7hs');
  const signed = (source?: Claim['source']) =>
    formatSignature(sign(key, { id: ID, source }, 1_700_000_000_123, nonce));
  assert.equal(signed(), 'AQAAAYvP5Wh7AAECAwQFBgcICQoLM8CpSqDuHUGlBPKixeKUqrXvnfOzOZzyG7t8zWz-Oyo');
  assert.equal(
    signed({ address: Uint8Array.of(192, 0, 2, 7), port: 40_000 }),
    'AQAAAYvP5Wh7AAECAwQFBgcICQoLhOgzzcrh64ChKDl0NNUBytek2gcml59Wpo7rZ-vrv9A',
  );
  const ipv6 = Uint8Array.from([0x20, 0x01, 0x0d, 0xb8, ...Array.from({ length: 11 }, () => 0), 1]);
  assert.equal(
    signed({ address: ipv6, port: 443 }),
    'AQAAAYvP5Wh7AAECAwQFBgcICQoLGh89QcwCKXuIdmo7tO152gu56n0d_ym0l92-qerVWpA',
  );
});

test('isSignedBy() accepts the output of sign() with any of the keys', () => {
  fc.assert(
    fc.property(
      aClaim,
      aTime,
      aNonce,
      fc.array(aKey, { minLength: 1, maxLength: 4 }),
      (claim, time, nonce, keys) => {
        for (const key of keys) assert.ok(proves(keys, claim, sign(key, claim, time, nonce)));
      },
    ),
  );
});

test('isSignedBy() refuses a signature with any bit flipped', () => {
  const key = clusterKey(secret, ID);
  fc.assert(
    fc.property(aSource, aTime, aNonce, (source, time, nonce) => {
      const claim = { id: ID, source };
      const signature = sign(key, claim, time, nonce);
      for (let bit = 0; bit < 8 * signature.length; bit++) {
        const flipped = Uint8Array.from(signature);
        flipped[bit >> 3] ^= 1 << (bit & 7);
        assert.ok(!proves([key], claim, flipped), `bit ${bit}`);
      }
    }),
    { numRuns: 10 },
  );
});

test('isSignedBy() refuses any other id, address, port, family, time, nonce and key', () => {
  fc.assert(
    fc.property(aClaim, aClaim, aTime, aTime, aNonce, aNonce, aKey, aKey, (...given) => {
      const [claim, other, time, otherTime, nonce, otherNonce, key, otherKey] = given;
      const signature = sign(key, claim, time, nonce);
      const refuses = (differs: boolean, keys: readonly Uint8Array[], of: Claim, what: Uint8Array) =>
        assert.equal(proves(keys, of, what), !differs);
      refuses(other.id !== claim.id, [key], { ...claim, id: other.id }, signature);
      refuses(textOf(other) !== textOf(claim), [key], { ...claim, source: other.source }, signature);
      refuses(!same(key, otherKey), [otherKey], claim, signature);
      const stamped = (time: number, nonce: Uint8Array) => {
        const moved = Uint8Array.from(signature);
        moved.set(sign(key, claim, time, nonce).subarray(0, 21));
        return moved;
      };
      refuses(otherTime !== time, [key], claim, stamped(otherTime, nonce));
      refuses(!same(nonce, otherNonce), [key], claim, stamped(time, otherNonce));
      if (claim.source !== undefined) {
        const { address, port } = claim.source;
        refuses(true, [key], { id: claim.id }, signature);
        refuses(true, [key], { id: claim.id, source: { address, port: port ^ 1 } }, signature);
        const mapped = Uint8Array.from([...Array.from({ length: 10 }, () => 0), 255, 255, ...address]);
        if (address.length === 4)
          refuses(true, [key], { id: claim.id, source: { address: mapped, port } }, signature);
      }
    }),
  );
});

test('clusterKey() derives a different key for every id and secret, and no key verifies for another cluster', () => {
  fc.assert(
    fc.property(anId, anId, aKey, aKey, (id, otherId, secret, otherSecret) => {
      const key = clusterKey(secret, id);
      assert.equal(same(key, clusterKey(secret, otherId)), id === otherId);
      assert.equal(same(key, clusterKey(otherSecret, id)), same(secret, otherSecret));
      const forged = sign(key, { id: otherId });
      assert.equal(proves([clusterKey(secret, otherId)], { id: otherId }, forged), id === otherId);
    }),
  );
});

test('sign() uses a fresh nonce and the current time by default', () => {
  const key = clusterKey(secret, ID);
  const [one, other] = [parseSignature(sign(key, { id: ID })), parseSignature(sign(key, { id: ID }))];
  assert.ok(one.kind === 'found' && other.kind === 'found');
  assert.notDeepEqual(one.value.nonce, other.value.nonce);
  assert.ok(Math.abs(one.value.timeMs - Date.now()) < 60_000);
});

function same(some: Uint8Array, others: Uint8Array): boolean {
  return Buffer.compare(some, others) === 0;
}

function textOf({ source }: Claim): string {
  return source === undefined ? '' : `${source.address.join('.')} ${source.port}`;
}
