// Stands in for a cluster's konnectivity server: TLS that speaks HTTP/2 and nothing else, as gRPC does, and says whose
// it is.

import { once } from 'node:events';
import { createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { KeyPair } from './cluster-certificates.ts';
import type { DemoCluster } from './demo-clusters.ts';

/** Serves until the thread ends. Answers the port. */
export async function startKonnectivity(cluster: DemoCluster, certificate: KeyPair): Promise<number> {
  const server = createSecureServer(certificate, (request, response) => {
    request.resume();
    response.setHeader('content-type', 'text/plain');
    response.end(konnectivityText(cluster));
  });
  server.on('sessionError', () => {});
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

export function konnectivityText({ name }: DemoCluster): string {
  return `konnectivity of ${name}, over HTTP/2\n`;
}
