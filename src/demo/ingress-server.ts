// A cluster's ingress: serves a page and a WebSocket over http, and over https with the cluster's own certificate.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { KeyPair } from './authority.ts';
import type { DemoCluster } from './demo-clusters.ts';
import { helloPage, helloText, PAGE_POLICY, type PageFacts } from './hello-page.ts';
import { SERVED_BY } from './kubernetes/api-server.ts';
import { LOOPBACK, listenOn, placeOf } from './place.ts';
import { tickingWebSocket } from './ticking-web-socket.ts';

/** Names the cluster that answered, for clients that do not read the page. */
export const CLUSTER_HEADER = 'x-cluster';

/** Over TLS if a certificate is given. */
export async function startIngress(cluster: DemoCluster, certificate: KeyPair | undefined): Promise<Server> {
  const server: Server = certificate === undefined ? createServer() : createSecureServer(certificate);
  const protocol = certificate === undefined ? 'http' : 'https';
  await listenOn(server, { host: LOOPBACK, port: 0 });
  const { host, port } = placeOf(server);
  const backend = `${cluster.name}-worker-0 (${host}:${port})`;
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const forwardedFor = request.headers['x-forwarded-for'];
    const asPage = request.headers.accept?.includes('text/html') === true;
    const facts: PageFacts = {
      cluster,
      backend,
      host: request.headers.host ?? '',
      protocol,
      forwardedFor: Array.isArray(forwardedFor) ? forwardedFor.join(', ') : forwardedFor,
    };
    response.writeHead(request.url === '/' ? 200 : 404, {
      'Content-Type': `text/${asPage ? 'html' : 'plain'}; charset=utf-8`,
      'Content-Security-Policy': PAGE_POLICY,
      'Cache-Control': 'no-store',
      Vary: 'Accept',
      [CLUSTER_HEADER]: cluster.name,
      [SERVED_BY]: backend,
    });
    response.end(asPage ? helloPage(facts) : helloText(facts));
  });
  server.on('upgrade', (request, socket, head) =>
    tickingWebSocket(request, socket, head, tick => `${cluster.name}, tick ${tick}`),
  );
  return server;
}
