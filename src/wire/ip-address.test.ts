import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatIp, formatIpPort, isIpv4, mapIp, parseCidr, parseIp } from './ip-address.ts';

function hex(bytes: Uint8Array | undefined): string | undefined {
  return bytes && Buffer.from(bytes).toString('hex');
}

const mappedPrefix = '00000000000000000000ffff';

test('parseIp() returns 16 bytes for both families', () => {
  const cases = {
    '1.2.3.4': `${mappedPrefix}01020304`,
    '0.0.0.0': `${mappedPrefix}00000000`,
    '255.255.255.255': `${mappedPrefix}ffffffff`,
    '::ffff:1.2.3.4': `${mappedPrefix}01020304`,
    '::FFFF:102:304': `${mappedPrefix}01020304`,
    '::': '00000000000000000000000000000000',
    '::1': '00000000000000000000000000000001',
    '1::': '00010000000000000000000000000000',
    '2001:db8::a:b': '20010db80000000000000000000a000b',
    '1:2:3:4:5:6:7:8': '00010002000300040005000600070008',
    '1:2:3:4:5:6:7::': '00010002000300040005000600070000',
    '::2:3:4:5:6:7:8': '00000002000300040005000600070008',
    '64:ff9b::192.0.2.33': '0064ff9b0000000000000000c0000221',
    '1:2:3:4:5:6:1.2.3.4': '00010002000300040005000601020304',
  };
  for (const [text, expected] of Object.entries(cases)) assert.equal(hex(parseIp(text)), expected, text);
});

test('parseIp() refuses everything else', () => {
  const cases = `
    1 1.2.3 1.2.3.4.5 1.2.3.256 01.2.3.4 1.2.3. .1.2.3 1..2.3 +1.2.3.4 1.2.3.-4 1e1.2.3.4 0x1.2.3.4 1.2.3.4/8 ١.2.3.4
    1.2.3.4:5 a.b.c.d : ::: 1:2 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 :1:2:3:4:5:6:7 1:2:3:4:5:6:7: 1::2::3 1:::2
    1:2:3:4:5:6:7:8:: ::1:2:3:4:5:6:7:8 1:2:3:4::5:6:7:8 12345:: ::g [::1] fe80::1%eth0
    ::1.2.3 1.2.3.4:: ::1.2.3.4:5 1:2:3:4:5:6:7:1.2.3.4 ::01.2.3.4 ::ffff:1.2.3.4/8`;
  for (const text of ['', ' ', '1.2.3.4 ', ' ::1', ...cases.trim().split(/\s+/)]) {
    assert.equal(parseIp(text), undefined, text);
  }
});

test('parseIp() agrees with node:net on what is an address', () => {
  const text = fc.oneof(
    fc.ipV4(),
    fc.ipV6(),
    fc.stringMatching(/^[0-9a-f:.]{0,20}$/),
    fc
      .array(fc.constantFrom(':', '::', '.', '0', '1', 'ff', '256', '1.2.3.4'), { maxLength: 16 })
      .map(a => a.join('')),
  );
  fc.assert(
    fc.property(text, candidate => {
      assert.equal(parseIp(candidate) !== undefined, isIP(candidate) !== 0);
    }),
    { numRuns: 5000 },
  );
});

test('formatIp() writes RFC 5952 text', () => {
  const cases = {
    '::FFFF:1.2.3.4': '1.2.3.4',
    '0:0:0:0:0:0:0:0': '::',
    '0:0:0:0:0:0:0:1': '::1',
    '1:0:0:0:0:0:0:0': '1::',
    '2001:0DB8:0:0:1:0:0:1': '2001:db8::1:0:0:1',
    '2001:db8:0:1:1:1:1:1': '2001:db8:0:1:1:1:1:1',
    '2001:0:0:1:0:0:0:1': '2001:0:0:1::1',
    '1:2:3:4:5:6:0:0': '1:2:3:4:5:6::',
    '::ffff:0:1.2.3.4': '::ffff:0:102:304',
    '::1.2.3.4': '::102:304',
    '::1:ffff:1.2.3.4': '::1:ffff:102:304',
  };
  for (const [text, expected] of Object.entries(cases)) assert.equal(formatIp(parseIp(text)!, 0), expected);
});

test('formatIp() and parseIp() are inverse, at any offset', () => {
  const groups = fc.array(fc.oneof(fc.constant([0, 0]), fc.uint8Array({ minLength: 2, maxLength: 2 })), {
    minLength: 8,
    maxLength: 8,
  });
  fc.assert(
    fc.property(groups, fc.boolean(), fc.nat(20), (parts, ipv4, at) => {
      const address = Uint8Array.from(parts.flatMap(part => [...part]));
      if (ipv4) address.set([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
      const buffer = new Uint8Array(60).fill(0xee);
      buffer.set(address, at);
      const text = formatIp(buffer, at);
      assert.deepEqual(parseIp(text), address);
      assert.equal(isIpv4(buffer, at), isIP(text) === 4);
    }),
    { numRuns: 1000 },
  );
});

test('formatIpPort() puts IPv6 in brackets', () => {
  assert.equal(formatIpPort(parseIp('1.2.3.4')!, 0, 5), '1.2.3.4:5');
  assert.equal(formatIpPort(parseIp('::1')!, 0, 443), '[::1]:443');
});

test('mapIp() maps 4 bytes and returns 16 unchanged', () => {
  assert.deepEqual(mapIp(Uint8Array.of(1, 2, 3, 4)), parseIp('1.2.3.4'));
  const wide = parseIp('::1')!;
  assert.equal(mapIp(wide), wide);
});

test('parseCidr() returns network and prefix in the 16-byte form', () => {
  const cases: readonly (readonly [text: string, network: string, prefix: number])[] = [
    ['10.0.0.0/8', '10.0.0.0', 104],
    ['10.1.2.3/8', '10.0.0.0', 104],
    ['10.255.255.255/9', '10.128.0.0', 105],
    ['0.0.0.0/0', '0.0.0.0', 96],
    ['192.0.2.7/32', '192.0.2.7', 128],
    ['192.0.2.7', '192.0.2.7', 128],
    ['::/0', '::', 0],
    ['ffff::1/0', '::', 0],
    ['2001:db8:ffff::/33', '2001:db8:8000::', 33],
    ['::1', '::1', 128],
    ['::ffff:10.1.0.0/104', '10.0.0.0', 104],
  ];
  for (const [text, network, prefix] of cases) {
    assert.deepEqual(parseCidr(text), { bytes: parseIp(network), prefix }, text);
  }
});

test('parseCidr() refuses everything else', () => {
  const cases = `/ /8 10.0.0.0/ 10.0.0.0/33 10.0.0.0/08 10.0.0.0/+8 10.0.0.0/-1 10.0.0.0/8/8 10.0.0/8 x/8
    10.0.0.0/255.0.0.0 ::/129 ::/1e1 ::/00 ::/`;
  for (const text of ['', '10.0.0.0/ 8', '10.0.0.0/8 ', ...cases.split(/\s+/)]) {
    assert.equal(parseCidr(text), undefined, text);
  }
});
