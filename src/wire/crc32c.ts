// CRC-32C (Castagnoli, RFC 3720 12.1), the checksum of PROXY v2's TLV 0x03. Node's zlib.crc32 uses another polynomial.
// Computed incrementally, so that a header can be summed with its checksum field as zeros.

const POLYNOMIAL = 0x82f63b78; // reflected

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1;
  return value >>> 0;
});

/** Extends the checksum `crc` (0 at the start) by bytes [from, to). */
export function crc32c(bytes: Uint8Array, from: number, to: number, crc = 0): number {
  let value = ~crc;
  for (let at = from; at < to; at++) value = table[(value ^ bytes[at]) & 0xff] ^ (value >>> 8);
  return ~value >>> 0;
}
