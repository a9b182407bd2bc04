// The HTTP server of the admin side, in cleartext or over TLS, on the control thread. Answers are made in admin-api.ts;
// this file bounds what its clients can take.

import {
  createServer as createHttpServer,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { KeyPairFiles } from '../config/config.ts';
import { type KeyPair, KeyPairWatch, readKeyPair } from '../config/key-pair.ts';
import { descriptorOf } from '../gateway/io/net-reactor.ts';
import { type AdminApiOptions, type AdminView, adminApi } from './admin-api.ts';
import { lockedOut } from './auth.ts';
import { checkForTimeouts, NEVER_MS } from './check-for-timeouts.ts';
import { guardConnections } from './connection-guard.ts';
import { RecentTraffic } from './recent-traffic.ts';

export interface AdminOptions extends AdminApiOptions {
  readonly host: string;
  readonly port: number;
  readonly tls?: KeyPairFiles;
  /** A listening socket that is open already. The server takes it over. */
  readonly descriptor?: number;
}

/** Requests are small: a slow sender is cut off, at most LOOK_MS later. */
const REQUEST_MS = 10_000;
const LOOK_MS = 2000;
/** A client that reads nothing of its answer for this long is cut off. Event streams send something every 15 s. */
const STALLED_MS = 30_000;
/** Beyond this many the least useful one is closed; see connection-guard.ts. */
const MAX_CONNECTIONS = 256;
/** There may be more for a moment, while others are being closed; beyond this they are closed at once. */
const MAX_SOCKETS = 4 * MAX_CONNECTIONS;
/** At the end, the time for answers under way and event streams to be sent. */
const CLOSE_MS = 250;

export class AdminServer implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;
  readonly #owned: readonly Disposable[];

  private constructor(server: Server, url: string, owned: readonly Disposable[]) {
    this.#server = server;
    this.url = url;
    this.#owned = owned;
  }

  /** Rejects with Node's error when it cannot listen, and with a KeyPairError when there is no certificate. */
  static async start(options: AdminOptions, view: AdminView): Promise<AdminServer> {
    const pair = options.tls === undefined ? undefined : await readKeyPair(options.tls);
    const recent = new RecentTraffic(view);
    const server = createServer(options, view, recent, pair);
    await listen(server, options);
    recent.start(error => options.log.error({ err: error }, 'cannot read the counters'));
    // A warning only: no traffic depends on it, and the file may still be created.
    for (const user of await lockedOut(options.auth))
      options.log.warn(user, 'password file cannot be used; this user cannot log in');
    const keyPair = pair && (await watchKeyPair(pair, server, options));
    const { address, port, family } = server.address() as AddressInfo;
    const scheme = pair === undefined ? 'http' : 'https';
    const url = `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
    return new AdminServer(server, url, [recent, view.events, ...(keyPair === undefined ? [] : [keyPair])]);
  }

  /** The listening socket. */
  get socket(): { readonly descriptor: number; readonly address: string; readonly port: number } {
    const { address, port } = this.#server.address() as AddressInfo;
    return { descriptor: descriptorOf(this.#server), address, port };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const owned of this.#owned) owned[Symbol.dispose]();
    const closed = new Promise(resolve => this.#server.close(resolve));
    const late = setTimeout(() => this.#server.closeAllConnections(), CLOSE_MS);
    await closed;
    clearTimeout(late);
  }
}

function createServer(
  options: AdminOptions,
  view: AdminView,
  recent: RecentTraffic,
  pair: KeyPair | undefined,
): Server {
  const bounds: ServerOptions = {
    requestTimeout: REQUEST_MS,
    headersTimeout: REQUEST_MS,
    connectionsCheckingInterval: NEVER_MS,
  };
  const server: Server =
    pair === undefined
      ? createHttpServer(bounds)
      : createHttpsServer({ ...bounds, ...pair, minVersion: 'TLSv1.2', handshakeTimeout: REQUEST_MS });
  checkWhileConnected(server, LOOK_MS);
  server.maxConnections = MAX_SOCKETS;
  server.timeout = STALLED_MS;
  const guard = guardConnections(server, MAX_CONNECTIONS);
  // A request in HTTP/1.0 may have no host, and URLs need one. No decision depends on it.
  const api = adminApi(options, view, recent, guard.waiting);
  const answer = getRequestListener(api.fetch, { hostname: 'localhost' });
  server.on('request', (request, response) => {
    Promise.try(async () => {
      if (guard.admit(request, response)) await answer(request, response);
    }).catch((error: unknown) => {
      options.log.error({ err: error, path: request.url }, 'admin request failed');
      fail(response);
    });
  });
  return server;
}

/** node:http checks for timeouts only while there are connections, so that an idle gateway sleeps. */
function checkWhileConnected(server: Server, everyMs: number): void {
  let open = 0;
  server.on('connection', socket => {
    if (++open === 1) checkForTimeouts(server, everyMs);
    socket.once('close', () => {
      // Once it no longer listens, Node has stopped its timer for good.
      if (--open === 0 && server.listening) checkForTimeouts(server, undefined);
    });
  });
}

/** After an exception outside the API, which handles its own. */
function fail(response: ServerResponse): void {
  if (response.headersSent) response.destroy();
  else response.writeHead(500, { Connection: 'close' }).end();
}

function listen(server: Server, { host, port, descriptor }: AdminOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    const place = descriptor === undefined ? { host: host === '' ? '::' : host, port } : { fd: descriptor };
    server.listen(place, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** A new pair serves new connections; open ones keep the old one. */
async function watchKeyPair(
  current: KeyPair,
  server: Server,
  { tls: files, log }: AdminOptions,
): Promise<KeyPairWatch | undefined> {
  if (files === undefined) return undefined;
  return KeyPairWatch.start(files, current, {
    changed: pair => {
      (server as unknown as ReturnType<typeof createHttpsServer>).setSecureContext({
        ...pair,
        minVersion: 'TLSv1.2',
      });
      log.info({ certFile: files.certFile }, 'certificate of the admin side renewed');
    },
    bad: ({ message }) =>
      log.error({ error: message }, 'new certificate of the admin side refused; keeping the previous one'),
  });
}
