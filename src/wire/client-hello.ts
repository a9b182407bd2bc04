// Parses the parts of a TLS ClientHello that a passthrough gateway needs: the server name, the offered protocols, and
// where the hello ends. It is called again whenever more bytes of the first flight arrive, so until the hello is
// complete it reads only the record headers.

import {
  type Cursor,
  cursorAt,
  findMessageEnd,
  fits,
  MESSAGE_HEADER,
  offset,
  skip,
  text,
  uint8,
  uint16,
} from './handshake-message.ts';
import { found, type Parsed, reject } from './parsed.ts';

/** Post-quantum hellos take 2 KiB, or 10 KiB with several large key shares; no real hello exceeds 64 KiB. */
export const MAX_HELLO = 65_536;

export interface ClientHello {
  /** In ASCII lower case, without one trailing dot; otherwise as sent, and possibly not a legal name. */
  readonly serverName: string | undefined;
  readonly alpn: readonly string[];
  /** Encrypted ClientHello (or its GREASE) is present: the server name is then the public one. */
  readonly ech: boolean;
  /** A key share of a hybrid ML-KEM (or Kyber) group is present. */
  readonly postQuantum: boolean;
  /** Index just after the record that completes the hello. */
  readonly end: number;
}

/** RFC 8446 4. */
const CLIENT_HELLO = 1;

/** RFC 8446 4.1.2: version and random precede the session id. */
const VERSION_AND_RANDOM = 34;
const MAX_SESSION_ID = 32;

const SERVER_NAME = 0;
const ALPN = 16;
const KEY_SHARE = 51;
const ENCRYPTED_CLIENT_HELLO = 0xfe0d;

const HOST_NAME = 0;
const noProtocols: readonly string[] = Object.freeze([]);

type Draft = { -readonly [K in keyof ClientHello]: ClientHello[K] };

/** A reason to reject, or undefined. */
type Fault = string | undefined;

export function parseClientHello(bytes: Uint8Array, from = 0, to = bytes.length): Parsed<ClientHello> {
  const end = findMessageEnd(bytes, from, to, CLIENT_HELLO, MAX_HELLO);
  if (typeof end !== 'number') return end;
  const cursor = cursorAt(bytes, from);
  const hello: Draft = { serverName: undefined, alpn: noProtocols, ech: false, postQuantum: false, end };
  const fault = readMessage(cursor, hello);
  return fault === undefined ? found(hello) : reject(fault);
}

/** RFC 8446 4.1.2. The message is complete; this checks whether its parts fit into each other. */
function readMessage(cursor: Cursor, hello: Draft): Fault {
  skip(cursor, 1);
  const limit = MESSAGE_HEADER + ((uint8(cursor) << 16) | uint16(cursor));

  if (!fits(cursor, VERSION_AND_RANDOM + 1, limit)) return 'hello-too-short';
  skip(cursor, VERSION_AND_RANDOM);
  const sessionId = uint8(cursor);
  if (sessionId > MAX_SESSION_ID) return 'session-id-too-long';

  if (!fits(cursor, sessionId + 2, limit)) return 'session-id-overrun';
  skip(cursor, sessionId);
  const cipherSuites = uint16(cursor);
  if (cipherSuites === 0 || cipherSuites % 2 === 1) return 'cipher-suites-length';

  if (!fits(cursor, cipherSuites + 1, limit)) return 'cipher-suites-overrun';
  skip(cursor, cipherSuites);
  const compressions = uint8(cursor);
  if (compressions === 0) return 'compression-methods-empty';
  if (!fits(cursor, compressions, limit)) return 'compression-methods-overrun';
  skip(cursor, compressions);

  // Clients before TLS 1.2 may end here (RFC 5246 7.4.1.2).
  if (offset(cursor) === limit) return undefined;
  if (!fits(cursor, 2, limit)) return 'extensions-overrun';
  const extensions = uint16(cursor);
  if (offset(cursor) + extensions !== limit) return 'extensions-length';
  return readExtensions(cursor, limit, hello);
}

/**
 * Reads only the extensions that we use, each of which may occur once (RFC 8446 4.2); the rest concerns only the client
 * and the backend.
 */
function readExtensions(cursor: Cursor, limit: number, hello: Draft): Fault {
  let seenServerName = false;
  let seenKeyShare = false;
  let fault: Fault;
  while (offset(cursor) < limit) {
    if (!fits(cursor, 4, limit)) return 'extension-overrun';
    const type = uint16(cursor);
    const length = uint16(cursor);
    if (!fits(cursor, length, limit)) return 'extension-overrun';
    const end = offset(cursor) + length;
    switch (type) {
      case SERVER_NAME:
        if (seenServerName) return 'server-name-twice';
        seenServerName = true;
        fault = readServerName(cursor, end, hello);
        break;
      case ALPN:
        if (hello.alpn !== noProtocols) return 'alpn-twice';
        fault = readAlpn(cursor, end, hello);
        break;
      case KEY_SHARE:
        if (seenKeyShare) return 'key-share-twice';
        seenKeyShare = true;
        fault = readKeyShare(cursor, end, hello);
        break;
      case ENCRYPTED_CLIENT_HELLO:
        if (hello.ech) return 'ech-twice';
        hello.ech = true;
        break;
    }
    if (fault !== undefined) return fault;
    skip(cursor, end - offset(cursor));
  }
  return undefined;
}

/** RFC 6066 3: a list with at most one name per type; names of any type start with a 16-bit length. */
function readServerName(cursor: Cursor, limit: number, hello: Draft): Fault {
  if (!listFills(cursor, limit)) return 'server-name-length';
  while (offset(cursor) < limit) {
    if (!fits(cursor, 3, limit)) return 'server-name-overrun';
    const type = uint8(cursor);
    const length = uint16(cursor);
    if (!fits(cursor, length, limit)) return 'server-name-overrun';
    if (type !== HOST_NAME) {
      skip(cursor, length);
      continue;
    }
    if (length === 0) return 'server-name-empty';
    if (hello.serverName !== undefined) return 'host-name-twice';
    hello.serverName = normalize(text(cursor, length));
  }
  return undefined;
}

/** RFC 7301 3.1: a non-empty list of names of 1 to 255 bytes. */
function readAlpn(cursor: Cursor, limit: number, hello: Draft): Fault {
  if (!listFills(cursor, limit)) return 'alpn-length';
  const protocols: string[] = [];
  while (offset(cursor) < limit) {
    const length = uint8(cursor);
    if (length === 0) return 'alpn-empty';
    if (!fits(cursor, length, limit)) return 'alpn-overrun';
    protocols.push(text(cursor, length));
  }
  hello.alpn = protocols;
  return undefined;
}

/** RFC 8446 4.2.8. The list may be empty, when a client requests a HelloRetryRequest. */
function readKeyShare(cursor: Cursor, limit: number, hello: Draft): Fault {
  if (!fits(cursor, 2, limit)) return 'key-share-length';
  if (uint16(cursor) !== limit - offset(cursor)) return 'key-share-length';
  while (offset(cursor) < limit) {
    if (!fits(cursor, 4, limit)) return 'key-share-overrun';
    if (isPostQuantum(uint16(cursor))) hello.postQuantum = true;
    const length = uint16(cursor);
    if (!fits(cursor, length, limit)) return 'key-share-overrun';
    skip(cursor, length);
  }
  return undefined;
}

function isPostQuantum(group: number): boolean {
  return (
    group === 0x11ec || // X25519MLKEM768
    group === 0x11eb || // SecP256r1MLKEM768
    group === 0x11ed || // SecP384r1MLKEM1024
    group === 0x6399 // X25519Kyber768Draft00, sent by clients from before 2025
  );
}

/** Reads the 16-bit length of a list that must be non-empty and end where its extension ends. */
function listFills(cursor: Cursor, limit: number): boolean {
  if (!fits(cursor, 2, limit)) return false;
  const length = uint16(cursor);
  return length > 0 && offset(cursor) + length === limit;
}

function normalize(name: string): string {
  const end = name.endsWith('.') ? name.length - 1 : name.length;
  const lower = /[A-Z]/.test(name) ? name.replace(/[A-Z]+/g, capitals => capitals.toLowerCase()) : name;
  return lower.slice(0, end);
}
