import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { descriptorCount, offerOf, socketsOf } from './messages.ts';

const socket = fc.record({
  address: fc.record({
    address: fc.uint8Array({ minLength: 16, maxLength: 16 }),
    port: fc.nat({ max: 65_535 }),
    dualStack: fc.boolean(),
  }),
  on: fc.option(fc.string(), { nil: undefined }),
  descriptors: fc.array(fc.nat(), { minLength: 1, maxLength: 5 }),
  isKept: fc.boolean(),
});

test('socketsOf() returns what offerOf() was given', () => {
  fc.assert(
    fc.property(fc.array(socket), fc.option(socket, { nil: undefined }), (listeners, admin) => {
      const { offer, descriptors } = offerOf({ listeners, admin });
      assert.equal(descriptorCount(offer), descriptors.length);
      const received = socketsOf(JSON.parse(JSON.stringify(offer)), descriptors);
      const plain = (value: unknown) => JSON.parse(JSON.stringify(value));
      assert.deepEqual(plain(received), plain({ listeners, admin }));
    }),
  );
});
