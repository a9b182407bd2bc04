// ClientHellos of real clients with their expected values, and a builder for artificial ones. The bytes in samples/
// come from scripts/capture-hellos.ts; the expected values follow from how that script starts each client.

import { readFileSync } from 'node:fs';
import type { ClientHello } from './client-hello.ts';

export interface HelloSample {
  readonly client: string;
  readonly bytes: Uint8Array;
  readonly hello: ClientHello;
}

const plain = { serverName: 'api.managed1.linuxera.lab', alpn: [], ech: false, postQuantum: false };
const http = ['h2', 'http/1.1'];

export const helloSamples: readonly HelloSample[] = [
  sample('openssl', plain), // 3.0
  sample('openssl-tls12', plain),
  sample('openssl-no-sni', { ...plain, serverName: undefined }),
  sample('openssl-padded', { ...plain, alpn: http }),
  sample('gnutls', plain), // 3.7
  sample('gnutls-tls12', { ...plain, alpn: http }),
  sample('go', { ...plain, postQuantum: true }), // 1.26
  sample('go-h2', { ...plain, alpn: http, postQuantum: true }),
  sample('go-no-sni', { ...plain, serverName: undefined, postQuantum: true }),
  sample('java', { ...plain, alpn: http }), // 17
  sample('curl', { ...plain, alpn: http }), // 7.88 with OpenSSL 3.0
  sample('chromium', { ...plain, alpn: http, ech: true, postQuantum: true }), // sends GREASE ECH
  sample('node', { ...plain, alpn: http, postQuantum: true }), // 26 with OpenSSL 3.5
  sample('node-no-sni', { ...plain, serverName: undefined, alpn: http, postQuantum: true }),
];

function sample(client: string, expected: Omit<ClientHello, 'end'>): HelloSample {
  const hex = readFileSync(new URL(`samples/${client}.hex`, import.meta.url), 'latin1');
  const bytes = Uint8Array.from(Buffer.from(hex.replaceAll('\n', ''), 'hex'));
  return { client, bytes, hello: { ...expected, end: bytes.length } };
}

/** The parts of an artificial hello, with plain defaults. */
export interface HelloParts {
  readonly sessionId?: Uint8Array;
  readonly cipherSuites?: Uint8Array;
  readonly compressions?: Uint8Array;
  /** Complete extensions, see `extension`. Undefined omits the block, as old clients do. */
  readonly extensions?: readonly Uint8Array[] | undefined;
}

/** A handshake message without record headers. */
export function helloMessage(parts: HelloParts = {}): Uint8Array {
  const body = join(
    Uint8Array.of(3, 3),
    new Uint8Array(32).fill(0xaa),
    vector(1, parts.sessionId ?? new Uint8Array(32).fill(0xbb)),
    vector(2, parts.cipherSuites ?? Uint8Array.of(0x13, 0x01, 0x13, 0x02)),
    vector(1, parts.compressions ?? Uint8Array.of(0)),
    parts.extensions === undefined ? new Uint8Array(0) : vector(2, join(...parts.extensions)),
  );
  return join(Uint8Array.of(1), vector(3, body));
}

/** The message in records of the given sizes; the rest goes into as few records as possible. */
export function inRecords(message: Uint8Array, sizes: readonly number[] = []): Uint8Array {
  const records: Uint8Array[] = [];
  for (let at = 0, turn = 0; at < message.length; turn++) {
    const part = message.subarray(at, at + (sizes[turn] ?? 16_384));
    records.push(Uint8Array.of(22, 3, 1), vector(2, part));
    at += part.length;
  }
  return join(...records);
}

/** The handshake message in the records of a sample. */
export function messageOf(bytes: Uint8Array): Uint8Array {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 5 + ((bytes[at + 3] << 8) | bytes[at + 4]);
    parts.push(bytes.subarray(at + 5, end));
    at = end;
  }
  return join(...parts);
}

export function extension(type: number, body: Uint8Array): Uint8Array {
  return join(Uint8Array.of(type >> 8, type & 0xff), vector(2, body));
}

export function serverNameExtension(...names: readonly string[]): Uint8Array {
  return extension(0, vector(2, join(...names.map(name => join(Uint8Array.of(0), vector(2, ascii(name)))))));
}

export function alpnExtension(...protocols: readonly string[]): Uint8Array {
  return extension(16, vector(2, join(...protocols.map(protocol => vector(1, ascii(protocol))))));
}

export function keyShareExtension(...groups: readonly number[]): Uint8Array {
  const shares = groups.map(group =>
    join(Uint8Array.of(group >> 8, group & 0xff), vector(2, new Uint8Array(32))),
  );
  return extension(51, vector(2, join(...shares)));
}

/** The bytes preceded by their length, in the given number of bytes. */
export function vector(lengthBytes: number, body: Uint8Array): Uint8Array {
  const length = Array.from(
    { length: lengthBytes },
    (_, i) => (body.length >> (8 * (lengthBytes - 1 - i))) & 0xff,
  );
  return join(Uint8Array.from(length), body);
}

export function join(...parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(parts));
}

export function ascii(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'latin1'));
}
