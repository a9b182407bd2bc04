// Converts between the kernel's struct sockaddr and the 16-byte addresses used everywhere else.

import { isIpv4 } from '../../wire/ip-address.ts';
import { AF_INET, AF_INET6, AF_UNIX } from './libc.ts';
import type { SocketAddress } from './reactor.ts';

const IN_BYTES = 16;
const IN6_BYTES = 28;
/** Enough for either. */
export const SOCKADDR_BYTES = IN6_BYTES;
/** sun_path has 108 bytes including the final NUL. */
const MAX_PATH = 107;

export interface Sockaddr {
  readonly family: number;
  readonly bytes: Uint8Array;
}

/** An IPv4 address becomes a sockaddr_in. */
export function sockaddrOf(address: SocketAddress): Sockaddr {
  const at = address.address;
  if (isIpv4(at, 0)) {
    const bytes = Buffer.alloc(IN_BYTES);
    bytes.writeUInt16LE(AF_INET, 0);
    bytes.writeUInt16BE(address.port, 2);
    bytes.set(at.subarray(12), 4);
    return { family: AF_INET, bytes };
  }
  const bytes = Buffer.alloc(IN6_BYTES);
  bytes.writeUInt16LE(AF_INET6, 0);
  bytes.writeUInt16BE(address.port, 2);
  bytes.set(at, 8);
  return { family: AF_INET6, bytes };
}

/** undefined if the path is too long. */
export function unixSockaddr(path: string): Sockaddr | undefined {
  const name = Buffer.from(path);
  if (name.length > MAX_PATH) return undefined;
  const bytes = Buffer.alloc(2 + name.length + 1);
  bytes.writeUInt16LE(AF_UNIX, 0);
  bytes.set(name, 2);
  return { family: AF_UNIX, bytes };
}

/** Writes the 16 address bytes and returns the port. */
export function readSockaddr(bytes: Uint8Array, into: Uint8Array, at: number): number {
  const family = bytes[0] | (bytes[1] << 8);
  if (family === AF_INET) {
    into.fill(0, at, at + 10);
    into[at + 10] = 255;
    into[at + 11] = 255;
    into[at + 12] = bytes[4];
    into[at + 13] = bytes[5];
    into[at + 14] = bytes[6];
    into[at + 15] = bytes[7];
  } else {
    for (let i = 0; i < 16; i++) into[at + i] = bytes[8 + i];
  }
  return (bytes[2] << 8) | bytes[3];
}
