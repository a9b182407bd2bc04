import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isLoopback, maskedCidr, overlap, readBackend, readListenAddress } from './address.ts';

test('readListenAddress() reads all three formats, and localhost', () => {
  const forms = {
    ':6443': ['', 6443],
    ':0': ['', 0],
    '192.0.2.1:65535': ['192.0.2.1', 65_535],
    '[::]:443': ['::', 443],
    '[2001:DB8::0:1]:443': ['2001:db8::1', 443],
    '[::ffff:127.0.0.1]:1': ['127.0.0.1', 1],
    'LocalHost:9440': ['localhost', 9440],
  };
  for (const [text, [host, port]] of Object.entries(forms)) {
    assert.deepEqual(readListenAddress(text), { value: { host, port } }, text);
  }
});

test('readBackend() normalizes every spelling of an address to one text', () => {
  const texts = ['[fd00::1]:6443', '[FD00:0:0::1]:6443', '[fd00:0:0:0:0:0:0:1]:06443'];
  for (const text of texts) {
    assert.deepEqual(readBackend(text), { value: { text: '[fd00::1]:6443', host: 'fd00::1', port: 6443 } });
  }
  assert.deepEqual(readBackend('CP1.Lab.:6443'), {
    value: { text: 'cp1.lab:6443', host: 'cp1.lab', port: 6443 },
  });
});

test('readBackend() reads its own text again, and never throws', () => {
  const part = fc.constantFrom(
    'a',
    '1',
    '.',
    ':',
    '[',
    ']',
    '::',
    '6443',
    '0',
    '-',
    '*',
    '/',
    ' ',
    'é',
    '255',
    'fd00',
  );
  const text = fc.array(part, { maxLength: 8 }).map(parts => parts.join(''));
  fc.assert(
    fc.property(fc.oneof(text, fc.string()), text => {
      const reading = readBackend(text);
      if ('fault' in reading) return;
      assert.deepEqual(readBackend(reading.value.text), reading);
    }),
    { numRuns: 2000 },
  );
});

test('overlap() is true for listeners that would compete for connections', () => {
  const pairs: readonly (readonly [string, string, boolean])[] = [
    [':6443', ':6443', true],
    [':6443', ':6444', false],
    [':0', ':0', false],
    [':6443', '127.0.0.1:6443', true],
    [':6443', '[::1]:6443', true],
    ['0.0.0.0:6443', '127.0.0.1:6443', true],
    ['0.0.0.0:6443', '[::1]:6443', false],
    ['0.0.0.0:6443', '[::]:6443', false],
    ['[::]:6443', '[::1]:6443', true],
    ['127.0.0.1:6443', '127.0.0.2:6443', false],
    ['localhost:6443', '127.0.0.1:6443', true],
    ['localhost:6443', '[::1]:6443', true],
    ['localhost:6443', '192.0.2.1:6443', false],
  ];
  for (const [a, b, expected] of pairs) {
    const [one, other] = [readListenAddress(a), readListenAddress(b)];
    assert.ok('value' in one && 'value' in other);
    assert.equal(overlap(one.value, other.value), expected, `${a} ${b}`);
    assert.equal(overlap(other.value, one.value), expected, `${b} ${a}`);
  }
});

test('isLoopback() is true only for addresses of this machine alone', () => {
  for (const host of ['localhost', '127.0.0.1', '127.9.9.9', '::1'])
    assert.equal(isLoopback(host), true, host);
  for (const host of ['', '0.0.0.0', '::', '192.0.2.1', '::2']) assert.equal(isLoopback(host), false, host);
});

test('maskedCidr() clears the bits beyond the prefix', () => {
  assert.equal(maskedCidr('10.1.2.3/8'), '10.0.0.0/8');
  assert.equal(maskedCidr('fd00::1/8'), 'fd00::/8');
  for (const exact of ['10.0.0.0/8', '0.0.0.0/0', '10.0.0.1', '10.0.0.1/32', '::/0']) {
    assert.equal(maskedCidr(exact), undefined, exact);
  }
});
