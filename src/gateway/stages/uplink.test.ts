import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterKey } from '../../identity/cluster-key.ts';
import { isSignedBy } from '../../identity/sign.ts';
import { connectName, parseHttpHead } from '../../wire/http-head.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { type Endpoint, parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { parseSignature, parseSignatureText } from '../../wire/signature.ts';
import { buildUplinkConnect, buildUplinkHeader } from './uplink.ts';

const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
const key = clusterKey(Buffer.from('a secret for tests, of at least 32 bytes'), ID);
const signing = { kind: 'proxy', clusterId: ID, key: Buffer.from(key).toString('base64url') } as const;

/** In the form the rows have: IPv4 in 4 bytes, or mapped in 16. */
function at(address: string, port: number, bytes: 4 | 16 = address.includes(':') ? 16 : 4): Endpoint {
  return { address: (parseIp(address) as Uint8Array).slice(-bytes), port };
}

function hexOf(source: Endpoint, destination: Endpoint): string {
  const header = buildUplinkHeader({ kind: 'proxy', clusterId: ID }, source, destination);
  return Buffer.from(header).toString('hex');
}

const id = `200024${Buffer.from(ID).toString('hex')}`;

test('buildUplinkHeader() matches a HyperShift node byte for byte over IPv4, 67 bytes', () => {
  const expected = `0d0a0d0a000d0a515549540a21110033${'0a010203ac140001'}${'9c40192b'}${id}`;
  assert.equal(hexOf(at('10.1.2.3', 40_000), at('172.20.0.1', 6443)), expected);
  assert.equal(expected.length / 2, 67);
  assert.equal(hexOf(at('10.1.2.3', 40_000, 16), at('172.20.0.1', 6443)), expected, 'mapped addresses too');
});

test('buildUplinkHeader() matches a HyperShift node byte for byte over IPv6, 91 bytes', () => {
  const [source, destination] = [at('fd00::2', 40_000), at('fd00::1', 6443)];
  const addresses = `fd00${'0'.repeat(27)}2fd00${'0'.repeat(27)}1`;
  const expected = `0d0a0d0a000d0a515549540a2121004b${addresses}9c40192b${id}`;
  assert.equal(hexOf(source, destination), expected);
  assert.equal(expected.length / 2, 91);
});

for (const [what, source, destination] of [
  ['IPv4', at('10.1.2.3', 40_000), at('172.20.0.1', 6443)],
  ['IPv6', at('fd00::2', 40_000), at('fd00::1', 6443)],
  ['IPv4 mapped to IPv6', at('10.1.2.3', 40_000, 16), at('172.20.0.1', 6443, 16)],
  ['IPv4 to IPv6', at('10.1.2.3', 40_000, 16), at('fd00::1', 6443)],
] as const) {
  test(`buildUplinkHeader() signs the source in the form the header has: ${what}`, () => {
    const bytes = buildUplinkHeader(signing, source, destination);
    const header = parseProxyHeader(bytes, 0, bytes.length);
    assert.ok(header.kind === 'found');
    assert.deepEqual(
      header.value.tlvs.map(tlv => tlv.type),
      [0x20, 0xe1],
    );
    const signature = parseSignature(header.value.tlvs[1].value);
    assert.ok(signature.kind === 'found');
    const claim = { id: ID, source: header.value.source };
    assert.ok(isSignedBy([key], claim, signature.value));
    assert.ok(!isSignedBy([key], { ...claim, id: 'another' }, signature.value));
    assert.ok(!isSignedBy([clusterKey(Buffer.from('another secret'), ID)], claim, signature.value));
  });
}

test('buildUplinkHeader() never produces the same signature twice', () => {
  const [source, destination] = [at('10.1.2.3', 1), at('10.1.2.4', 2)];
  const headers = Array.from({ length: 50 }, () =>
    Buffer.from(buildUplinkHeader(signing, source, destination)).toString('hex'),
  );
  assert.equal(new Set(headers).size, 50);
});

test('buildUplinkConnect() names the id, and signs it without an address', () => {
  assert.equal(
    Buffer.from(buildUplinkConnect({ kind: 'connect', clusterId: ID })).toString(),
    `CONNECT ${ID}:6443 HTTP/1.1\r\nHost: ${ID}:6443\r\n\r\n`,
  );
  const bytes = buildUplinkConnect({ ...signing, kind: 'connect' });
  const head = parseHttpHead(bytes, 0, bytes.length);
  assert.ok(head.kind === 'found');
  assert.equal(connectName(head.value), ID);
  const text = head.value.headers.find(([name]) => name === 'causeway-signature')?.[1] ?? '';
  const signature = parseSignatureText(text);
  assert.ok(signature.kind === 'found' && isSignedBy([key], { id: ID }, signature.value));
});
