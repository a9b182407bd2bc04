// A kubeconfig for one cluster: either to the gateway's address with the cluster's server name, so that kubectl needs
// no DNS, or to the agent's address without a server name, as pods connect.

import type { ClusterCertificates } from './cluster-certificates.ts';
import type { DemoCluster } from './demo-clusters.ts';
import type { Place } from './place.ts';

export function kubeconfig(
  { name }: Pick<DemoCluster, 'name'>,
  { ca, client }: Pick<ClusterCertificates, 'ca' | 'client'>,
  { host, port }: Place,
  serverName?: string,
): string {
  return `apiVersion: v1
kind: Config
current-context: ${name}
contexts:
  - name: ${name}
    context: { cluster: ${name}, user: ${name}-admin }
clusters:
  - name: ${name}
    cluster:
      server: https://${host}:${port}
${serverName === undefined ? '' : `      tls-server-name: ${serverName}\n`}      certificate-authority-data: ${base64(ca)}
users:
  - name: ${name}-admin
    user:
      client-certificate-data: ${base64(client.cert)}
      client-key-data: ${base64(client.key)}
`;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
