// Clients for every way in, used by the proofs of `--once` and by the demo's own traffic. Every connection goes to a
// given address; no name is resolved.

import { once } from 'node:events';
import * as http from 'node:http';
import * as http2 from 'node:http2';
import * as https from 'node:https';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import * as tls from 'node:tls';
import type { KeyPair } from './authority.ts';
import type { Place } from './place.ts';
import { readTextFrames, webSocketAccept } from './ticking-web-socket.ts';

export interface Visit {
  /** Where to connect. */
  readonly to: Place;
  /** Server name and Host; without it no SNI is sent, and the certificate must match the address. */
  readonly name?: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: http.OutgoingHttpHeaders;
  readonly signal: AbortSignal;
  readonly agent?: http.Agent;
}

export interface TlsVisit extends Visit {
  /** The only trusted CA. */
  readonly ca: string;
  readonly client?: KeyPair;
  readonly alpn?: readonly string[];
}

export interface Reply {
  readonly code: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
  /** The connection had carried an earlier request. */
  readonly reused: boolean;
}

export async function visitHttps(visit: TlsVisit): Promise<Reply> {
  return replyTo(https.request({ ...requestOptions(visit), ...tlsOptions(visit) }));
}

export async function visitHttp(visit: Visit): Promise<Reply> {
  return replyTo(http.request(requestOptions(visit)));
}

/** The first line of an endless response, such as a watch. */
export async function firstLine(visit: TlsVisit): Promise<string> {
  const request = https.request({ ...requestOptions(visit), ...tlsOptions(visit) });
  request.end();
  try {
    const [response] = (await once(request, 'response', visit)) as [http.IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`the answer was ${response.statusCode}`);
    return await readUntil(response, held => /^(.*)\n/.exec(held.toString())?.[1]);
  } finally {
    request.destroy();
  }
}

/** The first texts of a WebSocket, over TLS if a CA is given. */
export async function webSocketTexts(visit: Visit | TlsVisit, count: number): Promise<string[]> {
  const key = Buffer.from('causeway demo 16').toString('base64');
  const headers = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': key,
  };
  const options = requestOptions({ ...visit, path: '/ticks', headers });
  const request = 'ca' in visit ? https.request({ ...options, ...tlsOptions(visit) }) : http.request(options);
  request.end();
  try {
    const answered = once(request, 'response', visit).then(([response]) => {
      throw new Error(`the answer was ${response.statusCode}, not an upgrade`);
    });
    const upgraded = once(request, 'upgrade', visit) as Promise<[http.IncomingMessage, Duplex, Buffer]>;
    // The loser of the race never settles, or rejects with the same error.
    answered.catch(() => {});
    const [response, socket, head] = await Promise.race([upgraded, answered]);
    if (response.headers['sec-websocket-accept'] !== webSocketAccept(key)) {
      throw new Error('Sec-WebSocket-Accept is wrong');
    }
    socket.unshift(head);
    try {
      return await readUntil(socket, held => {
        const texts = readTextFrames(held);
        return texts.length >= count ? texts : undefined;
      });
    } finally {
      socket.destroy();
    }
  } finally {
    request.destroy();
  }
}

/** Over HTTP/2 only. */
export async function visitHttp2(visit: TlsVisit): Promise<string> {
  const socket = await handshake({ ...visit, alpn: ['h2'] });
  const session = http2.connect(`https://${visit.name}`, { createConnection: () => socket });
  session.on('error', () => {});
  try {
    const stream = session.request({ ':path': visit.path ?? '/' }, { signal: visit.signal });
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  } finally {
    session.destroy();
  }
}

/** Resolves with a verified TLS connection, or rejects with the error. */
export async function handshake(visit: TlsVisit, over?: Duplex): Promise<tls.TLSSocket> {
  const { to, alpn = [], signal } = visit;
  const socket = tls.connect({
    ...tlsOptions(visit),
    ...(over === undefined ? { host: to.host, port: to.port } : { socket: over }),
    ...(alpn.length > 0 && { ALPNProtocols: [...alpn] }),
  });
  try {
    await once(socket, 'secureConnect', { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** A request through a CONNECT to `authority` (`name:port`). */
export async function visitThroughConnect(authority: string, visit: TlsVisit): Promise<Reply> {
  const request = http.request({ ...visit.to, method: 'CONNECT', path: authority, agent: false });
  request.end();
  const [response, socket] = (await once(request, 'connect', visit)) as [http.IncomingMessage, Duplex];
  try {
    if (response.statusCode !== 200) throw new Error(`CONNECT was answered ${response.statusCode}`);
    return await visitOver(socket, visit);
  } finally {
    socket.destroy();
  }
}

/** The same over HTTP/2. */
export async function visitThroughHttp2Connect(authority: string, visit: TlsVisit): Promise<Reply> {
  const session = http2.connect(`http://${visit.to.host}:${visit.to.port}`);
  session.on('error', () => {});
  try {
    const stream = session.request({ ':method': 'CONNECT', ':authority': authority });
    const [headers] = (await once(stream, 'response', visit)) as [http2.IncomingHttpStatusHeader];
    if (headers[':status'] !== 200) throw new Error(`CONNECT was answered ${headers[':status']}`);
    return await visitOver(stream, visit);
  } finally {
    session.destroy();
  }
}

async function visitOver(socket: Duplex, visit: TlsVisit): Promise<Reply> {
  const secure = await handshake(visit, socket);
  // With any agent, the request would open its own connection.
  const { agent: _, ...options } = requestOptions(visit);
  return replyTo(https.request({ ...options, createConnection: () => secure }));
}

function requestOptions({
  to,
  name,
  path = '/',
  method = 'GET',
  headers,
  signal,
  agent,
}: Visit): http.RequestOptions {
  return {
    host: to.host,
    port: to.port,
    path,
    method,
    headers: { Host: `${name ?? to.host}:${to.port}`, ...headers },
    signal,
    agent: agent ?? false,
  };
}

function tlsOptions({ to, name, ca, client }: TlsVisit): tls.ConnectionOptions {
  return {
    ca,
    ...client,
    // Node verifies the certificate against this name, or against the address if there is none.
    ...(name !== undefined && { servername: name }),
    ...(isIP(to.host) !== 0 && { host: to.host }),
  };
}

async function replyTo(request: http.ClientRequest): Promise<Reply> {
  request.end();
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return {
    code: response.statusCode ?? 0,
    headers: response.headers,
    body: Buffer.concat(chunks).toString(),
    reused: request.reusedSocket,
  };
}

/** Reads until `find` returns a value. */
async function readUntil<T>(
  stream: NodeJS.ReadableStream,
  find: (held: Buffer) => T | undefined,
): Promise<T> {
  let held = Buffer.alloc(0);
  for await (const chunk of stream) {
    held = Buffer.concat([held, chunk as Buffer]);
    const found = find(held);
    if (found !== undefined) return found;
  }
  throw new Error(`the stream ended after ${held.length} bytes`);
}
