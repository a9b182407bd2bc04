// A stand-in for a cluster's konnectivity server: speaks only HTTP/2 over TLS, as gRPC does, and names its cluster.

import { createSecureServer, type Http2SecureServer } from 'node:http2';
import type { KeyPair } from './authority.ts';
import type { DemoCluster } from './demo-clusters.ts';
import { LOOPBACK, listenOn } from './place.ts';

export async function startKonnectivity(
  cluster: DemoCluster,
  certificate: KeyPair,
): Promise<Http2SecureServer> {
  const server = createSecureServer(certificate, (request, response) => {
    request.resume();
    response.setHeader('content-type', 'text/plain');
    response.end(konnectivityText(cluster));
  });
  server.on('sessionError', () => {});
  return listenOn(server, { host: LOOPBACK, port: 0 });
}

export function konnectivityText({ name }: DemoCluster): string {
  return `konnectivity of ${name}, over HTTP/2\n`;
}
