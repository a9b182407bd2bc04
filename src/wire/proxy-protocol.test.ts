import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { crc32c } from './crc32c.ts';
import { ascii, join, vector } from './hello.samples.ts';
import { mapIp, parseIp } from './ip-address.ts';
import type { Parsed } from './parsed.ts';
import {
  buildProxyV1,
  buildProxyV2,
  type Endpoint,
  MAX_PROXY_HEADER,
  type ProxyHeader,
  parseProxyHeader,
  type Tlv,
} from './proxy-protocol.ts';

const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
const SIGNATURE = '0d0a0d0a000d0a515549540a';

function parse(bytes: Uint8Array): Parsed<ProxyHeader> {
  // A plain Uint8Array, so that the result compares equal for any kind of input.
  return parseProxyHeader(Uint8Array.from(bytes), 0, bytes.length);
}

function header(bytes: Uint8Array): ProxyHeader {
  const answer = parse(bytes);
  assert.ok(answer.kind === 'found', JSON.stringify(answer));
  return answer.value;
}

function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex.replaceAll(/[\s|]/g, ''), 'hex'));
}

function ipv4(text: string, port: number): Endpoint {
  return { address: parseIp(text)!.subarray(12), port };
}

function ipv6(text: string, port: number): Endpoint {
  return { address: parseIp(text)!, port };
}

function tlv(type: number, value: string): Tlv {
  return { type, value: ascii(value) };
}

/** A version 2 header with any command, family and block. */
function v2(command: number, family: number, block: Uint8Array): Uint8Array {
  return join(fromHex(SIGNATURE), Uint8Array.of(command, family), vector(2, block));
}

const byte = fc.integer({ min: 0, max: 255 });
const port = fc.integer({ min: 0, max: 65_535 });
const anyIpv4 = fc.tuple(fc.uint8Array({ minLength: 4, maxLength: 4 }), port).map(toEndpoint);
/** With a bit set in the first byte, so that it is not a mapped IPv4 address. */
const notMapped = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map(bytes => bytes.with(0, bytes[0] | 0x20));
const anyIpv6 = fc.tuple(notMapped, port).map(toEndpoint);
const anyEnds = fc.oneof(fc.tuple(anyIpv4, anyIpv4), fc.tuple(anyIpv6, anyIpv6));
const anyTlv = fc
  .tuple(
    byte.filter(type => type !== 0x03),
    fc.uint8Array({ maxLength: 60 }),
  )
  .map(([type, value]): Tlv => ({ type, value }));

function toEndpoint([address, port]: [Uint8Array, number]): Endpoint {
  return { address, port };
}

test('parseProxyHeader() reads headers of HAProxy 2.6, with checksum and UNIQUE_ID', () => {
  const v2Ipv4 = fromHex(`${SIGNATURE} 21 11 003a | 7f000001 7f000001 e942 4269 | 03 0004 ebe6f4d9
    | 05 0024 30623963376330652d366432632d346437622d396435632d326633663061326638663131`);
  assert.deepEqual(header(v2Ipv4), {
    version: 2,
    command: 'proxy',
    family: 'ipv4',
    source: ipv4('127.0.0.1', 0xe942),
    destination: ipv4('127.0.0.1', 17_001),
    tlvs: [{ type: 3, value: fromHex('ebe6f4d9') }, tlv(5, ID)],
    end: 74,
  });
  const v2Ipv6 = fromHex(`${SIGNATURE} 21 21 0052 | 00000000000000000000000000000001
    00000000000000000000000000000001 c202 426b | 03 0004 0b52e2c9
    | 05 0024 30623963376330652d366432632d346437622d396435632d326633663061326638663131`);
  assert.deepEqual(header(v2Ipv6), {
    version: 2,
    command: 'proxy',
    family: 'ipv6',
    source: ipv6('::1', 0xc202),
    destination: ipv6('::1', 17_003),
    tlvs: [{ type: 3, value: fromHex('0b52e2c9') }, tlv(5, ID)],
    end: 98,
  });
  assert.deepEqual(header(ascii('PROXY TCP4 127.0.0.1 127.0.0.1 34700 17002\r\nx')), {
    version: 1,
    command: 'proxy',
    family: 'ipv4',
    source: ipv4('127.0.0.1', 34_700),
    destination: ipv4('127.0.0.1', 17_002),
    tlvs: [],
    end: 44,
  });
});

test("buildProxyV2() builds HyperShift's headers byte for byte", () => {
  const tlvs = [tlv(0x20, ID)];
  const idTlv = `20 0024 ${Buffer.from(ID).toString('hex')}`;
  assert.deepEqual(
    buildProxyV2({ source: ipv4('10.132.0.7', 40_000), destination: ipv4('172.20.0.1', 6443), tlvs }),
    fromHex(`${SIGNATURE} 21 11 0033 | 0a840007 ac140001 9c40 192b | ${idTlv}`),
  );
  const wide = buildProxyV2({ source: ipv6('fd00::7', 40_000), destination: ipv6('fd00::1', 6443), tlvs });
  const addresses = `fd00${'0'.repeat(26)}07 fd00${'0'.repeat(26)}01`;
  assert.deepEqual(wide, fromHex(`${SIGNATURE} 21 21 004b | ${addresses} 9c40 192b | ${idTlv}`));
  assert.equal(wide.length, 91);
});

test('parseProxyHeader() reads back every header of buildProxyV2()', () => {
  const anyTlvs = fc.array(anyTlv, { maxLength: 6 });
  fc.assert(
    fc.property(anyEnds, anyTlvs, fc.boolean(), ([source, destination], tlvs, summed) => {
      const bytes = buildProxyV2({ source, destination, tlvs, crc32c: summed });
      const family = source.address.length === 4 ? 'ipv4' : 'ipv6';
      const end = bytes.length;
      const sum = summed ? [{ type: 0x03, value: bytes.slice(-4) }] : [];
      const expected = {
        version: 2,
        command: 'proxy',
        family,
        source,
        destination,
        tlvs: [...tlvs, ...sum],
        end,
      };
      assert.deepEqual(header(bytes), expected);
    }),
    { numRuns: 500 },
  );
});

test('buildProxyV2() builds LOCAL unless both ends are known, and still adds TLVs', () => {
  const tlvs = [tlv(0x20, ID), tlv(0x20, ID)];
  const local = { version: 2, command: 'local', family: 'unspec', source: undefined, destination: undefined };
  assert.deepEqual(buildProxyV2({}), fromHex(`${SIGNATURE} 20 00 0000`));
  const bytes = buildProxyV2({ tlvs, source: ipv4('192.0.2.1', 1) });
  assert.deepEqual(header(bytes), { ...local, tlvs, end: bytes.length });
});

test('buildProxyV1() and buildProxyV2() convert both ends to one family', () => {
  const v4 = ipv4('192.0.2.1', 1);
  const v4Wide = { address: mapIp(v4.address), port: 1 };
  const v6 = ipv6('2001:db8::1', 2);
  assert.deepEqual(
    buildProxyV2({ source: v4Wide, destination: v4 }),
    buildProxyV2({ source: v4, destination: v4 }),
  );
  assert.deepEqual(header(buildProxyV2({ source: v4, destination: v6 })).source, v4Wide);
  assert.deepEqual(header(buildProxyV2({ source: v6, destination: v4 })).destination, v4Wide);
  assert.equal(String(buildProxyV1(v4Wide, v4)), 'PROXY TCP4 192.0.2.1 192.0.2.1 1 1\r\n');
  assert.equal(String(buildProxyV1(v4, v6)), 'PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1 2\r\n');
  assert.deepEqual(header(buildProxyV1(v4, v6)).source, v4Wide);
});

test('parseProxyHeader() reads back every line of buildProxyV1()', () => {
  fc.assert(
    fc.property(anyEnds, ([source, destination]) => {
      const bytes = buildProxyV1(source, destination);
      const family = source.address.length === 4 ? 'ipv4' : 'ipv6';
      const end = bytes.length;
      const expected = { version: 1, command: 'proxy', family, source, destination, tlvs: [], end };
      assert.deepEqual(header(bytes), expected);
    }),
    { numRuns: 500 },
  );
  assert.equal(String(buildProxyV1(undefined, ipv4('192.0.2.1', 1))), 'PROXY UNKNOWN\r\n');
});

test('buildProxyV2() refuses to build a header that is too long', () => {
  const fitting = { tlvs: [{ type: 1, value: new Uint8Array(MAX_PROXY_HEADER - 16 - 3) }] };
  assert.equal(header(buildProxyV2(fitting)).end, MAX_PROXY_HEADER);
  assert.throws(() => buildProxyV2({ ...fitting, crc32c: true }), {
    name: 'RangeError',
    message: 'Cannot build a PROXY header: it must have at most 4096 bytes: current value is 4103',
  });
});

test('parseProxyHeader() treats UNKNOWN followed by anything as local', () => {
  for (const line of [
    'PROXY UNKNOWN\r\n',
    'PROXY UNKNOWN \r\n',
    'PROXY UNKNOWN ffff::1 \n \r \0 65536\r\n',
  ]) {
    const local = {
      version: 1,
      command: 'local',
      family: 'unspec',
      source: undefined,
      destination: undefined,
    };
    assert.deepEqual(header(ascii(line)), { ...local, tlvs: [], end: line.length });
  }
});

test('parseProxyHeader() refuses malformed lines', () => {
  const cases: readonly (readonly [reason: string, line: string])[] = [
    ['v1-protocol', 'proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n'],
    ['v1-protocol', 'PROXY TCP5 '],
    ['v1-protocol', 'PROXY  T'],
    ['v1-protocol', 'PROXY\t'],
    ['v1-protocol', 'PROXY UNKNOWN\n'],
    ['v1-protocol', 'PROXY UNKNOWNS'],
    ['v1-protocol', 'PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n'],
    ['v1-character', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n'],
    ['v1-character', 'PROXY TCP4 1.2.3.4\t'],
    ['v1-character', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r.'],
    ['v1-words', 'PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n'],
    ['v1-words', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n'],
    ['v1-words', 'PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n'],
    ['v1-address', 'PROXY TCP4 ::1 ::1 1 2\r\n'],
    ['v1-address', 'PROXY TCP6 1.2.3.4 ::1 1 2\r\n'],
    ['v1-address', 'PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n'],
    ['v1-address', 'PROXY TCP6 ::1 ::1::1 1 2\r\n'],
    ['v1-port', 'PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n'],
    ['v1-port', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n'],
    ['v1-port', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 +2\r\n'],
    ['v1-port', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 a\r\n'],
  ];
  for (const [reason, line] of cases) {
    assert.deepEqual(parse(ascii(line)), { kind: 'reject', reason }, JSON.stringify(line));
  }
});

test('parseProxyHeader() accepts lines of up to 107 bytes and not a byte more', () => {
  const most = `PROXY UNKNOWN ${'x'.repeat(107 - 16)}\r\n`;
  assert.equal(header(ascii(most)).end, 107);
  const longer = most.replace('xx', 'xxx');
  assert.deepEqual(parse(ascii(longer)), { kind: 'reject', reason: 'v1-too-long' });
  assert.equal(parse(ascii(longer.slice(0, 106))).kind, 'incomplete');
  assert.equal(parse(ascii(longer.slice(0, 107))).kind, 'reject');
});

test('parseProxyHeader() finds the TLVs after every kind of address block', () => {
  const one = fromHex('e0 0002 6869');
  const tlvs = [{ type: 0xe0, value: ascii('hi') }];
  const cases: readonly (readonly [command: number, family: number, block: number, is: string])[] = [
    [0x21, 0x00, 0, 'proxy unspec'],
    [0x21, 0x11, 12, 'proxy ipv4'],
    [0x21, 0x12, 12, 'proxy ipv4'],
    [0x21, 0x10, 12, 'proxy ipv4'],
    [0x21, 0x21, 36, 'proxy ipv6'],
    [0x21, 0x22, 36, 'proxy ipv6'],
    [0x21, 0x31, 216, 'proxy unix'],
    [0x21, 0x32, 216, 'proxy unix'],
    [0x20, 0x00, 0, 'local unspec'],
    [0x20, 0x11, 12, 'local ipv4'],
    [0x20, 0x21, 36, 'local ipv6'],
    [0x20, 0x31, 216, 'local unix'],
    [0x20, 0x11, 0, 'local ipv4'], // a family without its block
    [0x20, 0x21, 0, 'local ipv6'],
  ];
  for (const [command, family, block, is] of cases) {
    const bytes = v2(command, family, join(new Uint8Array(block), one));
    const found = header(bytes);
    assert.equal(`${found.command} ${found.family}`, is);
    assert.deepEqual(found.tlvs, tlvs, is);
    assert.equal(found.end, bytes.length);
    const addressed = is === 'proxy ipv4' || is === 'proxy ipv6';
    assert.equal(found.source !== undefined, addressed, is);
    assert.equal(found.destination !== undefined, addressed, is);
  }
});

test('parseProxyHeader() skips the address block of LOCAL for any family', () => {
  const bytes = v2(0x20, 0x9f, Uint8Array.of(1, 2, 3));
  const local = { version: 2, command: 'local', family: 'unspec', source: undefined, destination: undefined };
  assert.deepEqual(header(bytes), { ...local, tlvs: [], end: bytes.length });
});

test('parseProxyHeader() keeps TLVs in order, with repeated types, as views of the buffer', () => {
  const tlvs = [tlv(0x20, 'a'), tlv(0x04, ''), tlv(0x20, 'b'), tlv(0x20, 'a')];
  const bytes = Uint8Array.from(buildProxyV2({ tlvs }));
  const answer = parseProxyHeader(bytes, 0, bytes.length);
  assert.ok(answer.kind === 'found');
  assert.deepEqual(answer.value.tlvs, tlvs);
  assert.equal(answer.value.tlvs[0].value.buffer, bytes.buffer);
});

test('parseProxyHeader() refuses a wrong checksum and any flipped bit', () => {
  const ends = { source: ipv4('192.0.2.1', 1), destination: ipv4('192.0.2.2', 2) };
  const tlvs = [tlv(0x20, ID)];
  // The checksum between other TLVs, as some senders place it.
  const bytes = v2(0x21, 0x11, join(buildProxyV2(ends).subarray(16), fromHex('03 0004 00000000 20 0001 41')));
  new DataView(bytes.buffer).setUint32(31, crc32c(bytes, 0, bytes.length));
  for (const good of [bytes, buildProxyV2({ ...ends, tlvs, crc32c: true })]) {
    assert.equal(parse(good).kind, 'found');
    for (let bit = 16 * 8; bit < 28 * 8; bit++) {
      const bad = Uint8Array.from(good);
      bad[bit >> 3] ^= 1 << (bit & 7);
      assert.deepEqual(parse(bad), { kind: 'reject', reason: 'v2-crc32c' });
    }
  }
  const zero = v2(0x20, 0, fromHex('03 0004 00000000'));
  assert.deepEqual(parse(zero), { kind: 'reject', reason: 'v2-crc32c' });
});

test('parseProxyHeader() names what is wrong in a binary header', () => {
  const cases: readonly (readonly [reason: string, bytes: Uint8Array])[] = [
    ['v2-signature', fromHex('0d0a0d0a000d0a515549540b')],
    ['v2-version', fromHex(`${SIGNATURE} 11`)],
    ['v2-command', fromHex(`${SIGNATURE} 22`)],
    ['v2-family', fromHex(`${SIGNATURE} 21 41`)],
    ['v2-transport', fromHex(`${SIGNATURE} 21 13`)],
    ['v2-too-long', fromHex(`${SIGNATURE} 21 11 0ff1`)],
    ['v2-too-long', fromHex(`${SIGNATURE} 20 00 ffff`)],
    ['v2-addresses-overrun', fromHex(`${SIGNATURE} 21 11 000b`)],
    ['v2-addresses-overrun', fromHex(`${SIGNATURE} 21 21 0023`)],
    ['v2-addresses-overrun', fromHex(`${SIGNATURE} 21 31 00d7`)],
    ['v2-tlv-overrun', v2(0x21, 0x00, fromHex('20'))],
    ['v2-tlv-overrun', v2(0x21, 0x00, fromHex('20 00'))],
    ['v2-tlv-overrun', v2(0x21, 0x00, fromHex('20 0002 41'))],
    ['v2-tlv-overrun', v2(0x20, 0x00, fromHex('20 0000 20 0001'))],
    ['v2-crc32c-length', v2(0x20, 0x00, fromHex('03 0003 000000'))],
    ['v2-crc32c-twice', v2(0x20, 0x00, fromHex('03 0004 00000000 03 0004 00000000'))],
  ];
  for (const [reason, bytes] of cases) {
    assert.deepEqual(parse(bytes), { kind: 'reject', reason });
    assert.equal(parse(bytes.subarray(0, -1)).kind, 'incomplete', `${reason} before its last byte`);
  }
});
