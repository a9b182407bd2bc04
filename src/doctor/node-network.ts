// The network as Node has it: plain TCP, TLS without verification, HTTPS. Nothing secret is ever sent here.

import type { X509Certificate } from 'node:crypto';
import { type IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { connect, isIP, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import { isHostname } from '../cluster/hostname.ts';
import { sayGoodbye } from '../controller/say-goodbye.ts';
import type {
  Address,
  Asked,
  AskRequest,
  Dialled,
  Http2Answer,
  Network,
  NoConnection,
  ServedCertificate,
  Shaken,
  ShakeRequest,
} from './network.ts';

/** For one connection: a person waits, and whatever takes longer is broken for clients, too. */
const DIAL_MS = 4000;
/** For a handshake or a request, with its connection. */
const ANSWER_MS = 8000;
/** For HTTP/2's first frame after the handshake. */
const HTTP2_MS = 3000;
/** Between the two halves of a hello: a proxy that reads once has read by then. */
const SPLIT_MS = 150;
/** Of an answer. */
const MAX_BODY = 64 * 1024;

/** As clients match (RFC 6125): no common name, and a wildcard is a whole label. */
const MATCHING = { subject: 'never', partialWildcards: false } as const;
/** TLS 1.3: alert certificate_required (116); before it, bad_certificate or handshake_failure. */
const CERTIFICATE_WANTED: ReadonlySet<number> = new Set([40, 42, 116]);
const HTTP2_PREFACE = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1'),
  // An empty SETTINGS frame (RFC 9113 6.5).
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);
const FRAME_TYPE_AT = 3;
const SETTINGS = 4;

export const nodeNetwork: Network = { dial, shake, ask };

async function dial(at: Address): Promise<Dialled> {
  const opened = await openSocket(at);
  if (!opened.ok) return opened;
  const { localAddress = '' } = opened.socket;
  opened.socket.destroy();
  return { ok: true, local: localAddress };
}

async function shake(request: ShakeRequest): Promise<Shaken> {
  const { at, serverName, alpn, ca, before, split = false, http2 = false } = request;
  const opened = await openSocket(at);
  if (!opened.ok) return opened;
  const { socket } = opened;
  const late = setTimeout(() => socket.destroy(new Late()), ANSWER_MS);
  try {
    if (before !== undefined) socket.write(before(localEnd(socket), at));
    const secure = connectTls({
      socket: split ? inTwoSegments(socket) : socket,
      secureContext: createSecureContext({
        minVersion: 'TLSv1',
        ciphers: 'DEFAULT:@SECLEVEL=0',
        ...(ca !== undefined && { ca }),
      }),
      rejectUnauthorized: false,
      ALPNProtocols: [...alpn],
      // Names are judged by the certificate itself.
      checkServerIdentity: () => undefined,
      ...(serverName !== undefined && isHostname(serverName) && { servername: serverName }),
    });
    await handshake(secure, socket);
    const certificate = secure.getPeerX509Certificate();
    if (certificate === undefined)
      return { ok: false, why: 'not-tls', text: 'the server has no certificate' };
    const answer = http2 && secure.alpnProtocol === 'h2' ? await beginHttp2(secure) : undefined;
    await sayGoodbye(secure);
    return {
      ok: true,
      alpn: secure.alpnProtocol || undefined,
      certificate: servedCertificate(certificate),
      ...(ca !== undefined &&
        !secure.authorized && {
          untrusted: String(secure.authorizationError ?? 'it is not from that authority'),
        }),
      ...(answer !== undefined && { answer }),
    };
  } catch (error) {
    return failureOf(error as NodeJS.ErrnoException);
  } finally {
    clearTimeout(late);
    socket.destroy();
  }
}

function ask({ at, serverName, path }: AskRequest): Promise<Asked> {
  const { promise, resolve } = Promise.withResolvers<Asked>();
  const fail = (error: unknown) => resolve({ ok: false, text: (error as Error).message });
  const name = serverName !== undefined && isHostname(serverName) ? serverName : '';
  request({
    host: at.host,
    port: at.port,
    path,
    agent: false,
    servername: name,
    rejectUnauthorized: false,
    checkServerIdentity: () => undefined,
    headers: { Host: serverName ?? at.host, 'User-Agent': 'causeway-doctor', Connection: 'close' },
    signal: AbortSignal.timeout(ANSWER_MS),
  })
    .on('response', response => void readBody(response).then(resolve, fail))
    .on('error', error =>
      fail(error.name === 'TimeoutError' || error.name === 'AbortError' ? new Error(LATE) : error),
    )
    .end();
  return promise;
}

const LATE = `no answer within ${ANSWER_MS / 1000} s`;

class Late extends Error {
  readonly code = 'ETIMEDOUT';

  constructor() {
    super(LATE);
  }
}

type Opened = { readonly ok: true; readonly socket: Socket } | NoConnection;

function openSocket({ host, port }: Address): Promise<Opened> {
  return new Promise(resolve => {
    const socket = connect({ host, port, noDelay: true });
    const timer = setTimeout(() => {
      socket.destroy();
      resolve({ ok: false, why: 'timeout', text: `no connection within ${DIAL_MS / 1000} s` });
    }, DIAL_MS);
    socket.once('error', error => {
      clearTimeout(timer);
      resolve(noConnection(error));
    });
    socket.once('connect', () => {
      clearTimeout(timer);
      // Whoever uses it hears of errors by its end.
      socket.on('error', () => {});
      resolve({ ok: true, socket });
    });
  });
}

function noConnection({ code = '', message }: NodeJS.ErrnoException): NoConnection {
  if (code === 'ECONNREFUSED') return { ok: false, why: 'refused', text: 'connection refused' };
  if (code === 'ETIMEDOUT') return { ok: false, why: 'timeout', text: message };
  if (code === 'ECONNRESET' || code === 'EPIPE') return { ok: false, why: 'reset', text: 'connection reset' };
  return { ok: false, why: 'unreachable', text: code === '' ? message : `${message}` };
}

function localEnd({ localAddress = '0.0.0.0', localPort = 0 }: Socket): Address {
  return { host: localAddress, port: localPort };
}

/** Rejects if the connection ends before. The socket below knows best why it ended. */
function handshake(secure: TLSSocket, socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    // They stay, so that a later error has somebody who takes it.
    socket.on('error', reject);
    secure.on('error', reject);
    socket.once('close', () => reject(new Error(CLOSED)));
    secure.once('close', () => reject(new Error(CLOSED)));
    secure.once('secureConnect', () => resolve());
  });
}

const CLOSED = 'the connection was closed during the handshake';

function failureOf(error: NodeJS.ErrnoException): Shaken {
  const { code = '', message } = error;
  const alert = /SSL alert number (\d+)/.exec(message)?.[1];
  if (alert !== undefined)
    return { ok: false, why: 'alert', alert: Number(alert), text: `TLS alert ${alert}` };
  if (message === CLOSED) return { ok: false, why: 'closed', text: CLOSED };
  if (code.startsWith('ERR_SSL') || code === 'EPROTO') {
    return { ok: false, why: 'not-tls', text: 'what answers does not speak TLS' };
  }
  return noConnection(error);
}

function servedCertificate(certificate: X509Certificate): ServedCertificate {
  const { subjectAltName = '', validFrom, validTo, fingerprint256 } = certificate;
  return {
    covers: name =>
      isIP(name) === 0
        ? certificate.checkHost(name, MATCHING) !== undefined
        : certificate.checkIP(name) !== undefined,
    names: [...subjectAltName.matchAll(/DNS:([^\s,"]+)/g)].map(match => match[1].toLowerCase()),
    notBefore: Date.parse(validFrom),
    notAfter: Date.parse(validTo),
    fingerprint: fingerprint256,
  };
}

/** The first frame of a server is SETTINGS (RFC 9113 3.4). */
function beginHttp2(secure: TLSSocket): Promise<Http2Answer> {
  return new Promise(resolve => {
    const timer = setTimeout(() => resolve('silent'), HTTP2_MS);
    const end = (answer: Http2Answer) => {
      clearTimeout(timer);
      resolve(answer);
    };
    let got = Buffer.alloc(0);
    secure.on('data', (chunk: Buffer) => {
      got = Buffer.concat([got, chunk.subarray(0, FRAME_TYPE_AT + 1)]);
      if (got.length > FRAME_TYPE_AT) end(got[FRAME_TYPE_AT] === SETTINGS ? 'settings' : 'other');
    });
    secure.on('error', error => {
      const alert = /SSL alert number (\d+)/.exec(error.message)?.[1];
      end(CERTIFICATE_WANTED.has(Number(alert)) ? 'certificate-wanted' : 'closed');
    });
    secure.once('close', () => end('closed'));
    secure.write(HTTP2_PREFACE);
  });
}

/** The first bytes that are written leave in two halves. */
function inTwoSegments(socket: Socket): Duplex {
  let isFirst = true;
  const stream = new Duplex({
    read: () => socket.resume(),
    write(chunk: Buffer, _encoding, done) {
      if (!isFirst) return void socket.write(chunk, () => done());
      isFirst = false;
      const half = chunk.length >> 1;
      socket.write(chunk.subarray(0, half));
      setTimeout(() => socket.write(chunk.subarray(half), () => done()), SPLIT_MS);
    },
    final: done => void socket.end(() => done()),
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });
  socket.on('data', (chunk: Buffer) => {
    if (!stream.push(chunk)) socket.pause();
  });
  socket.on('end', () => stream.push(null));
  socket.on('close', () => stream.destroy());
  return stream;
}

async function readBody(response: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_BODY) break;
  }
  const body = Buffer.concat(chunks).subarray(0, MAX_BODY).toString('utf8');
  return { ok: true, status: response.statusCode ?? 0, date: Date.parse(response.headers.date ?? ''), body };
}
