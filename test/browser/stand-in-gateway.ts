// A stand-in for the gateway's admin side: the dashboard's files, and an API that answers as each test wants.
// `await using gateway = await StandInGateway.start()`.

import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer, type HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import type { ClusterAnswer } from '../../src/admin/clusters.ts';
import { dashboardFiles } from '../../src/admin/dashboard.ts';
import { type EventName, EventStreams } from '../../src/admin/event-streams.ts';
import type { StatusAnswer } from '../../src/admin/status.ts';
import { type ConnectionAnswer, sampleClusters, sampleConnections, sampleStatus } from './gateway.samples.ts';

export class StandInGateway implements AsyncDisposable {
  status: StatusAnswer = sampleStatus();
  clusters: readonly ClusterAnswer[] = sampleClusters();
  connections: readonly ConnectionAnswer[] = sampleConnections();
  notReady: string | undefined;
  /** Status of the answer to a DELETE. */
  endsWith: 204 | 403 | 404 = 204;
  /** Connections that the page has ended, with the Content-Type of the request. */
  readonly ended: { readonly id: string; readonly type: string | undefined }[] = [];
  /** Requested paths, with their query. */
  readonly requests: string[] = [];
  #server: Server | undefined;
  #port = 0;
  readonly #streams = new EventStreams();

  static async start(): Promise<StandInGateway> {
    const gateway = new StandInGateway();
    await gateway.listen();
    return gateway;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** Number of pages that listen to events now. */
  get listeners(): number {
    return this.#streams.size;
  }

  emit(event: EventName, data: Record<string, unknown>): void {
    this.#streams.send(event, { at: new Date().toISOString(), ...data });
  }

  /** Again on the same port after `hangUp()`. */
  async listen(): Promise<void> {
    const server = createAdaptorServer({ fetch: this.#api().fetch }) as Server;
    server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Like a gateway that has died. */
  async hangUp(): Promise<void> {
    const closed = new Promise(resolve => this.#server?.close(resolve));
    this.#server?.closeAllConnections();
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.hangUp();
  }

  #api(): Hono<{ Bindings: HttpBindings }> {
    const api = new Hono<{ Bindings: HttpBindings }>();
    api.use((context, next) => {
      const { pathname, search } = new URL(context.req.url);
      this.requests.push(pathname + search);
      return next();
    });
    api.get('/readyz', context =>
      context.text(this.notReady ?? 'ok', this.notReady === undefined ? 200 : 503),
    );
    api.get('/api/v1/status', context => context.json(this.status));
    api.get('/api/v1/clusters', context => context.json(this.clusters));
    api.get('/api/v1/connections', context => {
      const cluster = context.req.query('cluster');
      return context.json(
        this.connections.filter(connection => cluster === undefined || connection.cluster === cluster),
      );
    });
    api.delete('/api/v1/connections/:id', context => {
      const id = context.req.param('id');
      this.ended.push({ id, type: context.req.header('Content-Type') });
      if (this.endsWith === 204) this.connections = this.connections.filter(other => other.id !== id);
      return context.body(null, this.endsWith);
    });
    api.get('/api/v1/events', context => {
      this.#streams.open(context.env.outgoing);
      return RESPONSE_ALREADY_SENT;
    });
    for (const { path, answer } of dashboardFiles()) api.get(path, answer);
    return api;
  }
}
