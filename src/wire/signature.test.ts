import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  buildSignature,
  buildStamp,
  formatSignature,
  parseSignature,
  parseSignatureText,
} from './signature.ts';

const nonce = fc.uint8Array({ minLength: 12, maxLength: 12 });
const mac = fc.uint8Array({ minLength: 32, maxLength: 32 });
const time = fc.maxSafeNat();

test('parseSignature() reads back the output of buildSignature(), also as text', () => {
  fc.assert(
    fc.property(time, nonce, mac, (timeMs, nonce, mac) => {
      const stamp = buildStamp(timeMs, nonce);
      const bytes = buildSignature(stamp, mac);
      assert.equal(bytes.length, 53);
      const parsed = parseSignature(bytes);
      assert.deepEqual(parsed, { kind: 'found', value: { timeMs, nonce, mac, stamp } });
      const text = formatSignature(bytes);
      assert.match(text, /^[\w-]{71}$/);
      const fromText = parseSignatureText(text);
      assert.ok(fromText.kind === 'found');
      assert.equal(fromText.value.timeMs, timeMs);
      assert.deepEqual(new Uint8Array(fromText.value.mac), mac);
    }),
  );
});

test('parseSignature() reads the layout: version, time, nonce, MAC', () => {
  const bytes = Uint8Array.from({ length: 53 }, (_, i) => i);
  bytes[0] = 1;
  bytes.set([0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0x7b], 1);
  const parsed = parseSignature(bytes);
  assert.ok(parsed.kind === 'found');
  assert.equal(parsed.value.timeMs, 1_700_000_000_123);
  assert.deepEqual([parsed.value.nonce[0], parsed.value.nonce.length], [9, 12]);
  assert.deepEqual([parsed.value.mac[0], parsed.value.mac.length], [21, 32]);
});

test('parseSignature() keeps the largest times far from any clock', () => {
  const parsed = parseSignature(new Uint8Array(53).fill(1, 0, 1).fill(255, 1, 9));
  assert.ok(parsed.kind === 'found' && parsed.value.timeMs >= 2 ** 63);
});

test('parseSignature() rejects every other length and version, and never throws', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), bytes => {
      const right = bytes.length === 53 && bytes[0] === 1;
      assert.equal(parseSignature(bytes).kind, right ? 'found' : 'reject');
    }),
  );
  for (let version = 0; version < 256; version++) {
    const bytes = new Uint8Array(53);
    bytes[0] = version;
    assert.equal(parseSignature(bytes).kind, version === 1 ? 'found' : 'reject');
  }
});

test('parseSignatureText() accepts only one spelling, and never throws', () => {
  const text = formatSignature(
    buildSignature(buildStamp(1, new Uint8Array(12)), new Uint8Array(32).fill(0xfb)),
  );
  assert.equal(parseSignatureText(text).kind, 'found');
  for (const other of [
    `${text}=`,
    ` ${text}`,
    text.replaceAll('-', '+'),
    text.slice(0, -1),
    `${text}A`,
    // The same bytes, with an unused bit set.
    text.slice(0, -1) + String.fromCharCode(text.charCodeAt(70) + 1),
    '',
  ])
    assert.equal(parseSignatureText(other).kind, 'reject', other);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), bytes => {
      parseSignatureText(Buffer.from(bytes).toString('latin1'));
    }),
  );
});

test('buildStamp() refuses a nonce of another length', () => {
  assert.throws(() => buildStamp(1, new Uint8Array(11)), /must have 12 bytes: current value is 11/);
});
