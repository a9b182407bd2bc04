// PROXY protocol version 2: a fixed part of 16 bytes, an address block as long as its family needs, and TLVs.
// HyperShift's nodes name their cluster in TLV 0x20; what a type means is for the caller to say.

import { crc32c } from './crc32c.ts';
import { isIpv4, mapIp } from './ip-address.ts';
import { found, incomplete, type Parsed, reject } from './parsed.ts';
import type { Endpoint, ProxyHeader, Tlv } from './proxy-header.ts';

/** Real headers have under 600 bytes; this bounds what an untrusted peer makes us hold, and the TLV objects. */
export const MAX_PROXY_HEADER = 4096;

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const FIXED_PART = 16;
const LOCAL = 0x20;
const PROXY = 0x21;

/** By the upper half of byte 13. The lower half (0 unspecified, 1 stream, 2 datagram) makes no difference. */
const families = ['unspec', 'ipv4', 'ipv6', 'unix'] as const;
type Family = (typeof families)[number];
const addressBlocks = { unspec: 0, ipv4: 12, ipv6: 36, unix: 216 } as const;
const MAX_TRANSPORT = 2;

const TLV_HEADER = 3;
const CRC32C = 0x03;
const CRC32C_LENGTH = 4;
const fourZeros = new Uint8Array(CRC32C_LENGTH);

export function parseProxyV2(bytes: Uint8Array, from: number, to: number): Parsed<ProxyHeader> {
  const fault = fixedPartFault(bytes, from, to);
  if (fault !== undefined) return reject(fault);
  const start = from + FIXED_PART;
  if (start > to) return incomplete;
  const length = (bytes[from + 14] << 8) | bytes[from + 15];
  const end = start + length;
  if (end - from > MAX_PROXY_HEADER) return reject('v2-too-long');

  const local = bytes[from + 12] === LOCAL;
  const family: Family | undefined = families[bytes[from + 13] >> 4];
  const block = blockLength(local, family, length);
  if (block > length) return reject('v2-addresses-overrun');
  if (end > to) return incomplete;

  const tlvs = readTlvs(bytes, start + block, end);
  if (tlvs === undefined) return reject('v2-tlv-overrun');
  const checksum = checksumFault(bytes, from, end, tlvs);
  if (checksum !== undefined) return reject(checksum);

  const width = family === 'ipv4' ? 4 : 16;
  const addressed = !local && (family === 'ipv4' || family === 'ipv6');
  return found({
    version: 2,
    command: local ? 'local' : 'proxy',
    family: family ?? 'unspec',
    source: addressed ? endpointAt(bytes, start, width, start + 2 * width) : undefined,
    destination: addressed ? endpointAt(bytes, start + width, width, start + 2 * width + 2) : undefined,
    tlvs,
    end,
  });
}

/**
 * One header, to be sent in one write (receivers peek once). LOCAL unless both ends are known; TLVs as given,
 * the checksum behind them. Addresses that both are IPv4, also in the mapped form, go out as IPv4.
 */
export function buildProxyV2(header: {
  readonly source?: Endpoint | undefined;
  readonly destination?: Endpoint | undefined;
  readonly tlvs?: readonly Tlv[];
  readonly crc32c?: boolean;
}): Uint8Array {
  const { source, destination, tlvs = [] } = header;
  const addresses = source && destination ? addressBlock(source, destination) : new Uint8Array(0);
  const all = header.crc32c ? [...tlvs, { type: CRC32C, value: fourZeros }] : tlvs;
  const length = all.reduce((sum, tlv) => sum + TLV_HEADER + tlv.value.length, addresses.length);
  if (FIXED_PART + length > MAX_PROXY_HEADER) {
    throw new RangeError(
      `Cannot build a PROXY header as it must have at most ${MAX_PROXY_HEADER} bytes: current value is ${FIXED_PART + length}`,
    );
  }

  const bytes = new Uint8Array(FIXED_PART + length);
  const view = new DataView(bytes.buffer);
  bytes.set(SIGNATURE, 0);
  bytes[12] = addresses.length === 0 ? LOCAL : PROXY;
  bytes[13] = addresses.length === 0 ? 0x00 : addresses.length === addressBlocks.ipv4 ? 0x11 : 0x21;
  view.setUint16(14, length);
  bytes.set(addresses, FIXED_PART);
  let at = FIXED_PART + addresses.length;
  for (const tlv of all) {
    bytes[at] = tlv.type;
    view.setUint16(at + 1, tlv.value.length);
    bytes.set(tlv.value, at + TLV_HEADER);
    at += TLV_HEADER + tlv.value.length;
  }
  if (header.crc32c) view.setUint32(at - CRC32C_LENGTH, crc32c(bytes, 0, at));
  return bytes;
}

/** Judges as much of the signature, command and family as is there. */
function fixedPartFault(bytes: Uint8Array, from: number, to: number): string | undefined {
  const there = Math.min(SIGNATURE.length, to - from);
  for (let i = 0; i < there; i++) {
    if (bytes[from + i] !== SIGNATURE[i]) return 'v2-signature';
  }
  const command = from + 12;
  if (command < to && bytes[command] >> 4 !== 2) return 'v2-version';
  if (command < to && bytes[command] !== LOCAL && bytes[command] !== PROXY) return 'v2-command';
  const family = from + 13;
  if (family >= to || bytes[command] === LOCAL) return undefined; // LOCAL: "including the family which is ignored"
  if (bytes[family] >> 4 >= families.length) return 'v2-family';
  return (bytes[family] & 0x0f) > MAX_TRANSPORT ? 'v2-transport' : undefined;
}

/**
 * Where the TLVs begin. LOCAL's addresses are skipped unseen: some senders set a family and leave its block
 * out, and behind a block of no known family nothing can be found.
 */
function blockLength(local: boolean, family: Family | undefined, length: number): number {
  if (family === undefined) return length;
  const block = addressBlocks[family];
  return local && block > length ? 0 : block;
}

function readTlvs(bytes: Uint8Array, from: number, to: number): Tlv[] | undefined {
  const tlvs: Tlv[] = [];
  let at = from;
  while (at < to) {
    const start = at + TLV_HEADER;
    if (start > to) return undefined;
    const end = start + ((bytes[at + 1] << 8) | bytes[at + 2]);
    if (end > to) return undefined;
    tlvs.push({ type: bytes[at], value: bytes.subarray(start, end) });
    at = end;
  }
  return tlvs;
}

/** The sum is over the whole header, TLVs included, with the four bytes of the sum itself taken as zeros. */
function checksumFault(
  bytes: Uint8Array,
  from: number,
  end: number,
  tlvs: readonly Tlv[],
): string | undefined {
  const sums = tlvs.filter(tlv => tlv.type === CRC32C);
  if (sums.length === 0) return undefined;
  // Two cannot both be right in any sender's way of counting, and each would cost a pass over the header.
  if (sums.length > 1) return 'v2-crc32c-twice';
  const { value } = sums[0];
  if (value.length !== CRC32C_LENGTH) return 'v2-crc32c-length';
  const at = value.byteOffset - bytes.byteOffset;
  const before = crc32c(bytes, from, at);
  const sum = crc32c(bytes, at + CRC32C_LENGTH, end, crc32c(fourZeros, 0, CRC32C_LENGTH, before));
  const reported = ((value[0] << 24) | (value[1] << 16) | (value[2] << 8) | value[3]) >>> 0;
  return sum === reported ? undefined : 'v2-crc32c';
}

function endpointAt(bytes: Uint8Array, at: number, width: number, portAt: number): Endpoint {
  return { address: bytes.subarray(at, at + width), port: (bytes[portAt] << 8) | bytes[portAt + 1] };
}

function addressBlock(source: Endpoint, destination: Endpoint): Uint8Array {
  const from = mapIp(source.address);
  const to = mapIp(destination.address);
  const skipped = isIpv4(from, 0) && isIpv4(to, 0) ? 12 : 0;
  const width = 16 - skipped;
  const block = new Uint8Array(2 * width + 4);
  block.set(from.subarray(skipped), 0);
  block.set(to.subarray(skipped), width);
  const view = new DataView(block.buffer);
  view.setUint16(2 * width, source.port);
  view.setUint16(2 * width + 2, destination.port);
  return block;
}
