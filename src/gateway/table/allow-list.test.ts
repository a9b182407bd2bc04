import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatIp, isIpv4, parseCidr, parseIp } from '../../wire/ip-address.ts';
import { compileAllowList } from './allow-list.ts';

test('compileAllowList() of undefined is undefined: anyone', () => {
  assert.equal(compileAllowList(undefined), undefined);
});

const cases: { cidrs: string[]; admitted: string[]; refused: string[] }[] = [
  { cidrs: [], admitted: [], refused: ['0.0.0.0', '10.0.0.1', '::', '::1', '2001:db8::1'] },
  {
    cidrs: ['0.0.0.0/0', '::/0'],
    admitted: ['0.0.0.0', '255.255.255.255', '::', '::1', 'ffff::'],
    refused: [],
  },
  {
    cidrs: ['0.0.0.0/0'],
    admitted: ['0.0.0.0', '255.255.255.255'],
    refused: ['::', '::1', '::fffe:a00:1', '::1:0:0:0'],
  },
  {
    cidrs: ['::/0'],
    admitted: ['::', '::1', '::a00:1', '::1:0:0:0'],
    refused: ['0.0.0.0', '10.0.0.1', '255.255.255.255'],
  },
  { cidrs: ['::ffff:0:0/95'], admitted: ['::fffe:a00:1'], refused: ['10.0.0.1', '::fffd:0:1'] },
  {
    cidrs: ['::ffff:10.0.0.0/104'],
    admitted: ['10.0.0.0', '10.255.255.255'],
    refused: ['9.255.255.255', '11.0.0.0'],
  },
  { cidrs: ['::ffff:0:0/96'], admitted: ['10.0.0.0', '1.2.3.4'], refused: ['::1'] },
  {
    cidrs: ['10.0.0.0/8', '10.1.0.0/16'],
    admitted: ['10.0.0.1', '10.1.2.3', '10.255.0.1'],
    refused: ['11.0.0.1'],
  },
  { cidrs: ['192.0.2.7/32'], admitted: ['192.0.2.7'], refused: ['192.0.2.6', '192.0.2.8'] },
  { cidrs: ['128.0.0.0/1'], admitted: ['128.0.0.0', '255.255.255.255'], refused: ['127.255.255.255'] },
  {
    cidrs: ['2001:db8::/32'],
    admitted: ['2001:db8::', '2001:db8:ffff::1'],
    refused: ['2001:db7::', '2001:db9::'],
  },
  {
    cidrs: ['2001:db8::1/128'],
    admitted: ['2001:db8::1'],
    refused: ['2001:db8::', '2001:db8::2', '2001:db8:1::1'],
  },
  { cidrs: ['8000::/1', 'fe80::/10'], admitted: ['8000::', 'fe80::1'], refused: ['7fff::1'] },
];

for (const { cidrs, admitted, refused } of cases) {
  test(`admits() with [${cidrs.join(', ')}]`, () => {
    for (const address of admitted) assert.equal(admits(cidrs, address), true, address);
    for (const address of refused) assert.equal(admits(cidrs, address), false, address);
  });
}

test('compileAllowList() throws on an entry that is not a CIDR rather than omitting it', () => {
  assert.throws(() => compileAllowList(['10.0.0.0/8', '10.0.0.0/33']), /'10\.0\.0\.0\/33'/);
});

/** Few different bytes, so that ranges nest, touch and repeat. */
const byte = fc.oneof(fc.constantFrom(0, 1, 0x7f, 0x80, 0xff), fc.nat({ max: 255 }));
const ipv4 = fc
  .tuple(byte, byte, byte, byte)
  .map(bytes => Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, ...bytes));
const ipv6 = fc
  .array(fc.constantFrom(0, 0, 0x7f, 0x80, 0xff), { minLength: 16, maxLength: 16 })
  .map(bytes => Uint8Array.from(bytes));
const address = fc.oneof(ipv4, ipv6);
const cidr = fc
  .oneof(fc.tuple(ipv4, fc.nat({ max: 32 })), fc.tuple(ipv6, fc.nat({ max: 128 })))
  .map(([bytes, length]) => `${formatIp(bytes, 0)}/${isIpv4(bytes, 0) ? length % 33 : length}`);

test('admits() agrees with a comparison bit by bit', () => {
  fc.assert(
    fc.property(
      fc.array(cidr, { maxLength: 40, size: 'max' }),
      fc.array(address, { minLength: 1, maxLength: 20 }),
      (cidrs, addresses) => {
        const list = compileAllowList(cidrs);
        assert.ok(list);
        const edges = cidrs.flatMap(text => neighboursOf(text));
        for (const bytes of [...addresses, ...edges]) {
          const padded = new Uint8Array(40).fill(0x5a);
          padded.set(bytes, 7);
          assert.equal(
            list.admits(padded, 7),
            cidrs.some(text => contains(text, bytes)),
            formatIp(bytes, 0),
          );
        }
      },
    ),
    { numRuns: 300 },
  );
});

function contains(text: string, address: Uint8Array): boolean {
  const network = parseCidr(text);
  assert.ok(network);
  const networkIsIpv4 = network.prefix >= 96 && isIpv4(network.bytes, 0);
  if (networkIsIpv4 !== isIpv4(address, 0)) return false;
  for (let bit = 0; bit < network.prefix; bit++) {
    if (bitAt(network.bytes, bit) !== bitAt(address, bit)) return false;
  }
  return true;
}

function bitAt(bytes: Uint8Array, bit: number): number {
  return (bytes[bit >> 3] >> (7 - (bit & 7))) & 1;
}

/** The first and last address of a CIDR, and those just outside. */
function neighboursOf(text: string): Uint8Array[] {
  const network = parseCidr(text);
  assert.ok(network);
  const last = network.bytes.slice();
  for (let bit = network.prefix; bit < 128; bit++) last[bit >> 3] |= 1 << (7 - (bit & 7));
  return [network.bytes, last, plus(network.bytes, -1), plus(last, 1)];
}

function plus(address: Uint8Array, step: 1 | -1): Uint8Array {
  const sum = address.slice();
  for (let i = 15; i >= 0; i--) {
    sum[i] += step;
    if (sum[i] !== (step === 1 ? 0 : 255)) break;
  }
  return sum;
}

function admits(cidrs: readonly string[], text: string): boolean | undefined {
  const bytes = parseIp(text);
  assert.ok(bytes);
  return compileAllowList(cidrs)?.admits(bytes, 0);
}
