// The admin side's HTTP server: health, status and metrics. Runs on the control thread, by default on loopback.
// A foreign Host is refused (DNS rebinding), and where `auth` is set everything but the health checks needs it.

import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { Registry } from '@prometheus-io/client';
import { type Context, Hono, type Next } from 'hono';
import { dashboardRoutes } from './dashboard.ts';
import { type MetricsView, metricsRegistry, metricsText } from './metrics.ts';

export interface AdminOptions {
  readonly host: string;
  readonly port: number;
  /** Host values accepted besides IP literals and localhost. */
  readonly hosts: readonly string[];
  readonly auth: readonly { readonly username: string; readonly passwordFile: string }[];
}

export interface AdminView extends MetricsView {
  /** Why it is not ready, or undefined when it is. */
  notReady(): string | undefined;
}

/** Requests are small; whoever sends slowly is cut. */
const REQUEST_MS = 10_000;
const MAX_CONNECTIONS = 256;

export class AdminServer implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  /** Rejects with Node's error when it cannot listen. */
  static async start(options: AdminOptions, view: AdminView): Promise<AdminServer> {
    const server = createAdaptorServer({ fetch: adminApi(options, view).fetch }) as Server;
    server.requestTimeout = REQUEST_MS;
    server.headersTimeout = REQUEST_MS;
    server.maxConnections = MAX_CONNECTIONS;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: options.host === '' ? '::' : options.host, port: options.port }, () => {
        server.off('error', reject);
        resolve();
      });
    });
    const { address, port, family } = server.address() as AddressInfo;
    return new AdminServer(server, `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise(resolve => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

function adminApi(options: AdminOptions, view: AdminView): Hono {
  const api = new Hono();
  const registries = new Map<string, Registry>();
  api.use((context, next) => checkHost(options, context, next));
  api.get('/healthz', context => context.text('ok'));
  api.get('/readyz', context => {
    const reason = view.notReady();
    return reason === undefined ? context.text('ok') : context.text(reason, 503);
  });
  api.use((context, next) => checkAuth(options, context, next));
  api.get('/metrics', async context => {
    const openMetrics = context.req.header('Accept')?.includes('application/openmetrics-text') === true;
    const contentType = openMetrics ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE;
    const registry = registries.get(contentType) ?? metricsRegistry(view, contentType);
    registries.set(contentType, registry);
    return context.body(await metricsText(registry), 200, { 'Content-Type': contentType });
  });
  api.get('/api/v1/status', context => context.json(view.status()));
  api.route('/', dashboardRoutes());
  return api;
}

async function checkHost(options: AdminOptions, context: Context, next: Next): Promise<Response | void> {
  const host = hostOf(context.req.header('Host') ?? '');
  if (isIP(host) !== 0 || host === 'localhost' || options.hosts.some(known => known.toLowerCase() === host)) {
    return next();
  }
  return context.text(`Host '${host}' is not one of this server's names; add it to admin.hosts\n`, 421);
}

/** Without port and brackets, in lower case. */
function hostOf(header: string): string {
  const bracketed = /^\[(.*)\](:\d+)?$/.exec(header);
  return (bracketed === null ? header.replace(/:\d+$/, '') : bracketed[1]).toLowerCase();
}

async function checkAuth(options: AdminOptions, context: Context, next: Next): Promise<Response | void> {
  if (options.auth.length === 0) return next();
  const [username, password] = basicCredentials(context.req.header('Authorization') ?? '');
  for (const entry of options.auth) {
    if (entry.username === username && sameText(password, await passwordOf(entry.passwordFile)))
      return next();
  }
  context.header('WWW-Authenticate', 'Basic realm="causeway", charset="UTF-8"');
  return context.text('A user name and a password are needed\n', 401);
}

function basicCredentials(header: string): [string, string] {
  const match = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(header);
  const [username, ...rest] = Buffer.from(match?.[1] ?? '', 'base64')
    .toString('utf8')
    .split(':');
  return [username, rest.join(':')];
}

/** Read each time, so that a changed password counts at once. An unreadable file admits nobody. */
async function passwordOf(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).replace(/\r?\n$/, '');
  } catch {
    return undefined;
  }
}

function sameText(given: string, expected: string | undefined): boolean {
  if (expected === undefined || expected === '') return false;
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}
