import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { CLOSES, connectionOptions, KEEPS_ALIVE, NAMES_FIELDS, UPGRADES } from './connection-options.ts';
import {
  CONNECTION,
  CONTENT_LENGTH,
  DISGUISED,
  FieldLines,
  fieldKind,
  HOST,
  OTHER,
  readLength,
  TE,
  X_FORWARDED,
  X_FORWARDED_FOR,
  X_FORWARDED_PROTO,
} from './field-lines.ts';
import { ascii } from './hello.samples.ts';

const kindOf = (name: string) => fieldKind(ascii(`<${name}>`), 1, name.length + 1);

for (const [name, kind] of [
  ['Host', HOST],
  ['hOST', HOST],
  ['TE', TE],
  ['content-length', CONTENT_LENGTH],
  ['CONTENT_LENGTH', DISGUISED],
  ['Connection', CONNECTION],
  ['X-Forwarded-For', X_FORWARDED_FOR],
  ['x-forwarded-PROTO', X_FORWARDED_PROTO],
  ['X-Forwarded-Foo', X_FORWARDED],
  ['X-Forwarded-', X_FORWARDED],
  ['X-Forwarded-Fo_', DISGUISED],
  ['x_forwarded_for', DISGUISED],
  ['X_Forwarded-Anything', DISGUISED],
  ['X-Forwarded', OTHER],
  ['X-Forwarder-For', OTHER],
  ['Hos', OTHER],
  ['Hosts', OTHER],
  ['Accept', OTHER],
  ['X_Own', OTHER],
  ['', OTHER],
] as const)
  test(`fieldKind() recognizes '${name}'`, () => assert.equal(kindOf(name), kind));

test('FieldLines keeps every line of a head, however many there are', () => {
  const lines = new FieldLines();
  fc.assert(
    fc.property(
      fc.array(fc.stringMatching(/^[a-z]{1,5}:[ \t]{0,2}[a-z]{0,4}[ \t]{0,2}$/), { maxLength: 200 }),
      all => {
        const bytes = ascii(all.map(line => `${line}\r\n`).join(''));
        lines.clear(0);
        let at = 0;
        for (const line of all) {
          lines.add(bytes, at, at + line.indexOf(':'), at + line.length);
          at += line.length + 2;
        }
        const text = (from: number, to: number) => Buffer.from(bytes.subarray(from, to)).toString('latin1');
        const kept = Array.from({ length: lines.count }, (_, index) => [
          text(lines.nameFrom[index], lines.nameTo[index]),
          text(lines.valueFrom[index], lines.valueTo[index]),
          text(lines.nameFrom[index], lines.lineTo[index]),
        ]);
        assert.deepEqual(
          kept,
          all.map(line => [line.split(':')[0], line.split(':')[1].trim(), line]),
        );
      },
    ),
  );
});

test('readLength() reads digits, and nothing else', () => {
  const read = (text: string) => readLength(ascii(text), 0, text.length);
  assert.deepEqual(['0', '5', '007', '999999999999999'].map(read), [0, 5, 7, 999_999_999_999_999]);
  for (const text of ['', '-1', '+1', '1 ', ' 1', '0x1', '1e1', '1,1', '1.0', '1000000000000000'])
    assert.equal(read(text), -1, text);
});

test('connectionOptions() reads a list in any case, and notes fields that it names', () => {
  const read = (text: string) => connectionOptions(ascii(text), 0, text.length);
  assert.equal(read('Close'), CLOSES);
  assert.equal(read('keep-ALIVE'), KEEPS_ALIVE);
  assert.equal(read('upgrade'), UPGRADES);
  assert.equal(read('x-hop'), NAMES_FIELDS);
  assert.equal(read('Upgrade, x-hop,close'), UPGRADES | CLOSES | NAMES_FIELDS);
  assert.equal(read('keep-alive, Upgrade') & ~NAMES_FIELDS, KEEPS_ALIVE | UPGRADES);
});
