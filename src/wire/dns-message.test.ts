import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  buildDnsQuery,
  HEADER_BYTES,
  parseDnsMessage,
  rcodeName,
  TYPE_A,
  TYPE_AAAA,
  TYPE_OPT,
} from './dns-message.ts';
import { encodeDnsName, readDnsName } from './dns-name.ts';

/** `www.lab.test A`, answered over a CNAME with compressed names, an address of each family and an OPT. */
const ANSWER = Buffer.concat([
  hex('1234 8180 0001 0003 0000 0001'),
  encodeDnsName('www.lab.test'),
  hex('0001 0001'),
  hex('c00c 0005 0001 0000003c 0005 026777 c010'),
  hex('c02a 0001 0001 00000100 0004 cb00710a'),
  hex('c02a 001c 0001 00000001 0010 20010db8000000000000000000000010'),
  hex('00 0029 04d0 01000000 0000'),
]);

function hex(text: string): Buffer {
  return Buffer.from(text.replaceAll(' ', ''), 'hex');
}

const label = fc.stringMatching(/^[a-z0-9_-]{1,63}$/);
const host = fc.array(label, { maxLength: 8 }).map(labels => labels.join('.'));

test('parseDnsMessage() reads compressed records', () => {
  const parsed = parseDnsMessage(ANSWER, 0, ANSWER.length);
  assert.ok(parsed.kind === 'found');
  const { questions, answers, rcode, additional, end } = parsed.value;
  assert.deepEqual(questions, [{ name: 'www.lab.test', type: 1, class: 1 }]);
  assert.deepEqual(
    answers.map(({ name, ttl, data }) => [name, ttl, data]),
    [
      ['www.lab.test', 60, 'gw.lab.test'],
      ['gw.lab.test', 256, '203.0.113.10'],
      ['gw.lab.test', 1, '2001:db8::10'],
    ],
  );
  assert.deepEqual([rcode, rcodeName(rcode), additional[0].type], [16, 'BADVERS', TYPE_OPT]);
  assert.equal(end, ANSWER.length);
});

test('parseDnsMessage() asks for more on every proper prefix', () => {
  for (let to = 0; to < ANSWER.length; to++)
    assert.equal(parseDnsMessage(ANSWER, 0, to).kind, 'incomplete', `${to} bytes`);
});

test('parseDnsMessage() returns the same wherever the bytes are', () => {
  const edit = fc.tuple(fc.nat(ANSWER.length - 1), fc.integer({ min: 0, max: 255 }));
  fc.assert(
    fc.property(fc.array(edit, { maxLength: 4 }), fc.uint8Array({ maxLength: 20 }), (edits, before) => {
      const bytes = Uint8Array.from(ANSWER);
      for (const [at, byte] of edits) bytes[at] = byte;
      const moved = Uint8Array.from([...before, ...bytes, ...before]);
      const [plain, other] = [
        parseDnsMessage(bytes, 0, bytes.length),
        parseDnsMessage(moved, before.length, before.length + bytes.length),
      ];
      if (other.kind !== 'found') return assert.deepEqual(other, plain);
      assert.deepEqual(
        { ...other.value, end: other.value.end - before.length },
        (plain as typeof other).value,
      );
    }),
    { numRuns: 1000 },
  );
});

test('parseDnsMessage() never throws, and gives a reason for what it rejects', () => {
  const header = fc
    .tuple(fc.nat(2), fc.nat(3), fc.nat(3), fc.nat(3))
    .map(counts => Uint8Array.from([0, 1, 0x81, 0, ...counts.flatMap(count => [0, count])]));
  const bytes = fc
    .tuple(header, fc.array(fc.oneof(fc.constantFrom(0, 1, 0xc0, 12, 13), fc.nat(255)), { maxLength: 120 }))
    .map(([head, rest]) => Uint8Array.from([...head, ...rest]));
  fc.assert(
    fc.property(fc.oneof(bytes, fc.uint8Array({ maxLength: 80 })), each => {
      const parsed = parseDnsMessage(each, 0, each.length);
      if (parsed.kind === 'reject') assert.match(parsed.reason, /^[a-z]+(-[a-z]+)*$/);
      if (parsed.kind === 'found') assert.ok(parsed.value.end <= each.length);
    }),
    { numRuns: 5000 },
  );
});

test('readDnsName() ends on pointers that loop, point forward or to themselves', () => {
  const cases: readonly (readonly [bytes: readonly number[], at: number, result: string])[] = [
    [[0xc0, 0], 0, 'pointer-not-back'],
    [[0xc0, 2, 0xc0, 0], 2, 'pointer-not-back'],
    [[0, 0xc0, 3, 0], 1, 'pointer-not-back'],
    [[1, 0x61, 0xc0, 0], 2, 'pointer-not-back'],
    [[0x40, 0], 0, 'label-type-unknown'],
    [[0x80, 0], 0, 'label-type-unknown'],
    [[5, 0x61], 0, 'incomplete'],
  ];
  for (const [bytes, at, result] of cases) {
    const read = readDnsName(Uint8Array.from(bytes), at, 0, bytes.length);
    assert.equal(read, result, bytes.join(' '));
  }
});

test('readDnsName() takes 255 bytes and no more', () => {
  const of = (length: number) => readDnsName(encodeDnsName(`${'a.'.repeat(length)}a`), 0, 0, 2 * length + 3);
  assert.ok(typeof of(126) === 'object');
  assert.equal(of(127), 'name-too-long');
});

test('readDnsName() keeps bytes apart that text would confuse', () => {
  const bytes = Uint8Array.from([3, 0x61, 0x2e, 0x62, 2, 0x5c, 0x00, 0]);
  assert.deepEqual(readDnsName(bytes, 0, 0, bytes.length), { text: 'a\\046b.\\092\\000', end: 8 });
});

test('buildDnsQuery() is what parseDnsMessage() reads', () => {
  fc.assert(
    fc.property(host, fc.nat(0xffff), fc.constantFrom(TYPE_A, TYPE_AAAA), (name, id, type) => {
      fc.pre(name.length <= 253);
      const bytes = buildDnsQuery({ id, name, type });
      const parsed = parseDnsMessage(bytes, 0, bytes.length);
      assert.ok(parsed.kind === 'found');
      const { questions, end } = parsed.value;
      assert.deepEqual([parsed.value.id, questions], [id, [{ name, type, class: 1 }]]);
      assert.ok(end === bytes.length && end > HEADER_BYTES);
    }),
  );
});
