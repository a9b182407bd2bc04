// HTTP/2 clients for tests: node:http2's, with streams that keep what they receive; and frames as bytes, for what a
// well-behaved client never sends.

import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { bytes, type ClientOptions, type Peer, until } from './given.ts';

/** A client's connection. */
export class H2Client implements Disposable {
  readonly session: ClientHttp2Session;
  /** Its own `host:port`, as in the gateway's log. */
  readonly address: string;
  /** Before it connected, as in the log. */
  readonly since: string;
  /** The codes of all received GOAWAY frames, each with its last stream. */
  readonly goaways: (readonly [code: number, last: number])[] = [];

  private constructor(session: ClientHttp2Session, since: string) {
    this.session = session;
    this.since = since;
    this.address = `${session.socket.localAddress}:${session.socket.localPort}`;
    session.on('goaway', (code, last) => this.goaways.push([code, last]));
    session.on('error', () => {});
  }

  static async connect(port: number, { from, to = '127.0.0.1' }: ClientOptions = {}): Promise<H2Client> {
    const since = new Date().toISOString();
    const session = connect(`http://${to}:${port}`, {
      createConnection: () =>
        connectSocket({ port, host: to, ...(from !== undefined && { localAddress: from }) }),
    });
    await once(session, 'connect');
    return new H2Client(session, since);
  }

  /** Sends CONNECT; the stream is writable before the response. */
  open(authority: string, headers: OutgoingHttpHeaders = {}): H2Stream {
    return new H2Stream(this.session.request({ ':method': 'CONNECT', ':authority': authority, ...headers }));
  }

  [Symbol.dispose](): void {
    this.session.destroy();
  }
}

export class H2Stream {
  readonly stream: ClientHttp2Stream;
  #status: number | undefined;
  #isEnded = false;
  readonly #chunks: Buffer[] = [];

  constructor(stream: ClientHttp2Stream) {
    this.stream = stream;
    stream.on('response', headers => {
      this.#status = Number(headers[':status']);
    });
    stream.on('data', (chunk: Buffer) => this.#chunks.push(chunk));
    stream.on('end', () => {
      this.#isEnded = true;
    });
    stream.on('error', () => {});
  }

  received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  /** The code of RST_STREAM; also 0 for a clean end. Undefined while it is open. */
  code(): number | undefined {
    return this.stream.closed ? this.stream.rstCode : undefined;
  }

  status(): Promise<number> {
    return until('a response', () => this.#status);
  }

  receives(what: string): Promise<boolean> {
    return until(`to hear ${what}`, () => this.received().includes(what));
  }

  /** Waits for END_STREAM. */
  ends(): Promise<boolean> {
    return until('END_STREAM', () => this.#isEnded);
  }

  /** Waits until the stream is closed. */
  async closes(): Promise<number> {
    await until('the stream to close', () => this.stream.closed);
    return this.stream.rstCode;
  }
}

export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

export const DATA = 0;
export const HEADERS = 1;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PING = 6;
const GOAWAY = 7;

export const END_STREAM = 1;
const END_HEADERS = 4;

export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: string | Uint8Array = '',
): Buffer {
  const content = bytes(payload);
  const head = Buffer.alloc(9);
  head.writeUIntBE(content.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return bytes(head, content);
}

/** HEADERS of a request; each field is a literal without indexing (RFC 7541 6.2.2). */
export function requestFrame(stream: number, fields: readonly (readonly [string, string])[]): Buffer {
  const block = fields.map(([name, value]) =>
    bytes(Uint8Array.of(0, name.length), name, Uint8Array.of(value.length), value),
  );
  return frame(HEADERS, END_HEADERS, stream, bytes(...block));
}

export function connectFrame(stream: number, authority: string): Buffer {
  return requestFrame(stream, [
    [':method', 'CONNECT'],
    [':authority', authority],
  ]);
}

export function resetFrame(stream: number, code: number): Buffer {
  return frame(RST_STREAM, 0, stream, Uint8Array.of(0, 0, 0, code));
}

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** All complete frames that a raw client has received. */
export function framesOf(peer: Peer): Frame[] {
  const heard = peer.received();
  const frames: Frame[] = [];
  for (let at = 0; at + 9 <= heard.length; ) {
    const length = heard.readUIntBE(at, 3);
    if (at + 9 + length > heard.length) break;
    const [type, flags, stream] = [heard[at + 3], heard[at + 4], heard.readUInt32BE(at + 5)];
    frames.push({ type, flags, stream, payload: heard.subarray(at + 9, at + 9 + length) });
    at += 9 + length;
  }
  return frames;
}

/** The code of the last GOAWAY that a raw client has received. */
export function goawayCode(peer: Peer): number | undefined {
  return framesOf(peer)
    .findLast(({ type }) => type === GOAWAY)
    ?.payload.readUInt32BE(4);
}
