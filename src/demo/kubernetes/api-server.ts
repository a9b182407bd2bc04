// One API server of a cluster: TLS with the cluster's own certificate, HTTP/2 and HTTP/1.1, authentication by client
// certificate or token. The two servers of a cluster share one state.

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ClusterCertificates } from '../cluster-certificates.ts';
import { LOOPBACK, listenOn, placeOf } from '../place.ts';
import { type ApiUser, answerRequest, type Log, type Watch } from './answer-request.ts';
import { apiStatus } from './api-status.ts';
import type { ClusterState, WatchEvent } from './cluster-state.ts';
import { toTable } from './table.ts';

export interface ApiServerOptions {
  /** The cluster's name. */
  readonly cluster: string;
  /** The node it runs on, sent in a header of every response. */
  readonly node: string;
  readonly state: ClusterState;
  readonly certificates: Pick<ClusterCertificates, 'ca' | 'controlPlane' | 'token'>;
  /** 0 means any free port. */
  readonly port: number;
}

/** Names the API server that answered. */
export const SERVED_BY = 'x-served-by';

/** A watcher with more unread bytes than this is cut off. */
const MAX_UNREAD = 1024 * 1024;
const LOG_LINE_EVERY_MS = 1000;

type Request = IncomingMessage | Http2ServerRequest;
/** Cast to ServerResponse below where both have the method and only their types differ. */
type Response = ServerResponse | Http2ServerResponse;

export class ApiServer implements AsyncDisposable {
  readonly port: number;
  readonly #server: Http2SecureServer;
  readonly #sockets: Set<Socket>;

  private constructor(server: Http2SecureServer, sockets: Set<Socket>) {
    this.#server = server;
    this.#sockets = sockets;
    this.port = placeOf(server).port;
  }

  static async start(options: ApiServerOptions): Promise<ApiServer> {
    const { ca, controlPlane } = options.certificates;
    const server = createSecureServer(
      // A certificate is requested but not required: a token also works.
      { ...controlPlane, ca, requestCert: true, rejectUnauthorized: false, allowHTTP1: true },
      (request, response) => respond(options, request, response),
    );
    const sockets = new Set<Socket>();
    server.on('connection', (socket: Socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    });
    // A stand-in ignores clients that disconnect during a handshake or a stream.
    server.on('sessionError', () => {});
    await listenOn(server, { host: LOOPBACK, port: options.port });
    return new ApiServer(server, sockets);
  }

  /** Ends at once, like a killed server. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

function respond(options: ApiServerOptions, request: Request, response: Response): void {
  const { cluster, node, state } = options;
  const url = new URL(request.url ?? '/', 'https://localhost');
  const answer = answerRequest(
    cluster,
    state,
    {
      method: request.method ?? 'GET',
      path: url.pathname,
      query: url.searchParams,
      accept: request.headers.accept ?? '',
      user: userOf(options, request),
    },
    Date.now(),
  );
  request.resume();
  response.on('error', () => {});
  response.setHeader(SERVED_BY, node);
  switch (answer.kind) {
    case 'object':
      return sendObject(response, answer.code, answer.body, wantsIndent(request, url.searchParams));
    case 'text':
      response.setHeader('content-type', 'text/plain');
      return void response.end(answer.text);
    case 'watch':
      return sendWatch(state, answer, response);
    case 'log':
      return sendLog(options, answer, response);
  }
}

function userOf({ certificates }: ApiServerOptions, { headers, socket }: Request): ApiUser | undefined {
  const tls = socket as TLSSocket;
  if (tls.authorized) {
    const { subject } = tls.getPeerCertificate();
    return { name: String(subject.CN), groups: [subject.O, 'system:authenticated'].flat().map(String) };
  }
  if (headers.authorization !== `Bearer ${certificates.token}`) return undefined;
  const groups = ['system:serviceaccounts', 'system:authenticated'];
  return { name: 'system:serviceaccount:default:demo', groups };
}

/** Whether a person reads the response, by the same rule as a real API server. */
function wantsIndent({ headers }: Request, query: URLSearchParams): boolean {
  const asked = query.get('pretty');
  return asked === null ? /^(curl|Wget|Mozilla)\//.test(headers['user-agent'] ?? '') : asked !== 'false';
}

function sendObject(response: Response, code: number, body: object, indent = false): void {
  response.statusCode = code;
  response.setHeader('content-type', 'application/json');
  response.end(`${JSON.stringify(body, null, indent ? 2 : undefined)}\n`);
}

function sendWatch(state: ClusterState, watch: Watch, response: Response): void {
  const { resource, selects, asTable, from, timeoutMs } = watch;
  const past = from === undefined ? present(state, resource.name) : state.since(from);
  if (past === undefined) {
    return sendObject(response, 410, apiStatus('Expired', `too old resource version: ${from}`));
  }
  response.setHeader('content-type', 'application/json');
  const send = (event: WatchEvent) => {
    if (event.resource !== resource.name || !selects(event.object)) return;
    const version = String(event.version);
    const object = asTable ? toTable(resource, [event.object], version, Date.now()) : event.object;
    writeOn(response, `${JSON.stringify({ type: event.type, object })}\n`);
  };
  // kubectl waits for the response head before it prints its list.
  (response as ServerResponse).flushHeaders();
  for (const event of past) send(event);
  const stop = state.watch(send);
  const timer = setTimeout(() => response.end(), timeoutMs);
  response.once('close', () => {
    stop();
    clearTimeout(timer);
  });
}

/** The existing objects as ADDED events. */
function present(state: ClusterState, resource: string): readonly WatchEvent[] {
  return state.list(resource).map(object => ({ type: 'ADDED', resource, object, version: state.version }));
}

function sendLog({ cluster, node }: ApiServerOptions, { pod, follow, lines }: Log, response: Response): void {
  response.setHeader('content-type', 'text/plain');
  const line = (time: number) =>
    writeOn(response, `${new Date(time).toISOString()} ${pod} in ${cluster} is healthy, served by ${node}\n`);
  const now = Date.now();
  for (let i = lines; i > 0; i--) line(now - i * LOG_LINE_EVERY_MS);
  if (!follow) return void response.end();
  const timer = setInterval(() => line(Date.now()), LOG_LINE_EVERY_MS);
  response.once('close', () => clearInterval(timer));
}

function writeOn(response: Response, text: string): void {
  (response as ServerResponse).write(text);
  if (response.writableLength > MAX_UNREAD) response.destroy();
}
