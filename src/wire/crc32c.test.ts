import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { crc32c } from './crc32c.ts';
import { ascii } from './hello.samples.ts';

test('crc32c() matches the examples of RFC 3720 B.4', () => {
  const ascending = Uint8Array.from({ length: 32 }, (_, i) => i);
  assert.equal(crc32c(new Uint8Array(32), 0, 32), 0x8a9136aa);
  assert.equal(crc32c(new Uint8Array(32).fill(0xff), 0, 32), 0x62a8ab43);
  assert.equal(crc32c(ascending, 0, 32), 0x46dd794e);
  assert.equal(crc32c(ascending.toReversed(), 0, 32), 0x113fdb5c);
  assert.equal(crc32c(ascii('123456789'), 0, 9), 0xe3069283);
});

test('crc32c() gives the same sum in pieces as at once', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(), (bytes, where) => {
      const cut = where % (bytes.length + 1);
      const pieces = crc32c(bytes, cut, bytes.length, crc32c(bytes, 0, cut));
      assert.equal(pieces, crc32c(bytes, 0, bytes.length));
    }),
  );
});
