// Serves an agent's /healthz, /readyz and /metrics. Read-only.

import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Registry } from '@prometheus-io/client';
import { type MetricsView, metricsRegistry, metricsText } from '../admin/metrics.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { reactorErrorOf } from '../gateway/io/net-reactor.ts';
import type { Place } from './agent-options.ts';

export interface AgentView extends MetricsView {
  notReady(): string | undefined;
}

/** Requests are small; slow senders are cut off. */
const REQUEST_MS = 10_000;
const MAX_CONNECTIONS = 64;

export class AgentMetrics implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  static async start(on: Place, view: AgentView): Promise<AgentMetrics> {
    const registry = metricsRegistry(view, Registry.PROMETHEUS_CONTENT_TYPE);
    const server = createServer((request, response) => {
      answer(request.url ?? '/', response, view, registry).catch(() => response.destroy());
    });
    server.requestTimeout = REQUEST_MS;
    server.headersTimeout = REQUEST_MS;
    server.maxConnections = MAX_CONNECTIONS;
    await new Promise<void>((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException) =>
        reject(new ListenError(`${on.host}:${on.port} (--metrics-on)`, reactorErrorOf(error)));
      server.once('error', failed);
      // Without a host, Node listens on both families, or on the one that the machine has.
      server.listen({ ...(on.host !== '' && { host: on.host }), port: on.port }, () => {
        server.off('error', failed);
        resolve();
      });
    });
    // Out of descriptors: one probe gets no response, and the agent continues.
    server.on('error', () => {});
    const { address, port, family } = server.address() as AddressInfo;
    return new AgentMetrics(server, `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise(resolve => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

async function answer(
  url: string,
  response: ServerResponse,
  view: AgentView,
  registry: Registry,
): Promise<void> {
  const send = (status: number, text: string, type = 'text/plain; charset=utf-8') =>
    response.writeHead(status, { 'Content-Type': type }).end(text);
  const notReady = view.notReady();
  switch (url.split('?')[0]) {
    case '/healthz':
      return void send(200, 'ok');
    case '/readyz':
      return void send(notReady === undefined ? 200 : 503, notReady ?? 'ok');
    case '/metrics':
      if (notReady !== undefined && notReady !== 'draining') return void send(503, notReady);
      return void send(200, await metricsText(registry), registry.contentType);
    default:
      return void send(404, 'Available: /healthz, /readyz and /metrics\n');
  }
}
