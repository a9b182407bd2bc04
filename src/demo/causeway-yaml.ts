// The causeway.yaml of the demo, written as a person would write it, to be read, copied and edited.

import { type DemoCluster, GUEST_HOST, TUNNEL_HOST } from './demo-clusters.ts';
import { CLUSTERS_FOLDER, identityFiles } from './demo-files.ts';
import type { ClusterPorts } from './stand-ins-worker.ts';

export interface DemoFile {
  readonly port: number;
  readonly adminPort: number;
  readonly clusters: readonly { readonly cluster: DemoCluster; readonly ports: ClusterPorts }[];
  /** A further host for the API of the first cluster. */
  readonly alias?: string;
  /** The cluster whose applications redirect http to https. */
  readonly redirect?: string;
}

export function causewayYaml({ port, adminPort, clusters, alias, redirect }: DemoFile): string {
  return `# What causeway demo serves. Edit it while the demo runs: a valid edit takes effect within a second.

listen:
  - on: "127.0.0.1:${port}"          # one port for TLS, HTTP, PROXY headers and CONNECT
    agents: [127.0.0.0/8]        # who may select a cluster by its id

admin:
  on: "127.0.0.1:${adminPort}"

identity:
  secretFile: ./${identityFiles.secret}   # agents sign the cluster's id with a key derived from this

tunnel:                          # where agents' tunnels end, on the same port
  hosts: [${TUNNEL_HOST}]
  certificates: [{ certFile: ./${identityFiles.tunnelCertificate}, keyFile: ./${identityFiles.tunnelKey} }]

workers: 2

sources:                         # further clusters: put a file into that folder
  - directory: { path: ./${CLUSTERS_FOLDER} }

clusters:
${clusters
  .map(({ cluster, ports }, index) =>
    clusterYaml(cluster, ports, index === 0 ? alias : undefined, cluster.name === redirect),
  )
  .join('\n')}`;
}

/** A file for the folder of further clusters. */
export function guestYaml({ clusters: [{ ports }] }: DemoFile): string {
  return `clusters:
  - name: guest
    api: { hosts: [${GUEST_HOST}], backends: [${ports.api.map(at).join(', ')}] }
`;
}

function clusterYaml(
  cluster: DemoCluster,
  ports: ClusterPorts,
  alias: string | undefined,
  redirect: boolean,
): string {
  const hosts = [cluster.apiHost, ...(alias === undefined ? [] : [alias])];
  return `  - name: ${cluster.name}
    id: ${cluster.id}
${cluster.isSigned ? '    identity: required           # its agents must sign the id\n' : ''}    api:
      hosts: [${hosts.join(', ')}]
      backends: [${ports.api.map(at).join(', ')}]
      balance: round-robin       # so that both servers answer; by default a client stays with one
    konnectivity:
      hosts: [${cluster.konnectivityHost}]
      backends: [${at(ports.konnectivity)}]
    apps:
      hosts: ["*.${cluster.appsDomain}"]
      https: [${at(ports.https)}]
      http: ${redirect ? 'redirect' : `[${at(ports.http)}]`}
`;
}

function at(port: number): string {
  return `"127.0.0.1:${port}"`;
}
