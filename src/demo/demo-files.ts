// The names of the files in ./demo-out.

import type { DemoCluster } from './demo-clusters.ts';

export const CONFIG_FILE = 'causeway.yaml';
/** A folder: further clusters, a file each. */
export const CLUSTERS_FOLDER = 'clusters';
export const GUEST_FILE = 'guest.yaml';
export const LOG_FILE = 'causeway.log';
export const AGENTS_LOG_FILE = 'agents.log';

/** How the gateway and the agents authenticate each other. */
export const identityFiles = {
  secret: 'identity.secret',
  tunnelCertificate: 'tunnel.crt',
  tunnelKey: 'tunnel.key',
  tunnelCa: 'tunnel-ca.crt',
} as const;

export const clusterFiles = {
  ca: ({ name }: DemoCluster) => `${name}-ca.crt`,
  kubeconfig: ({ name }: DemoCluster) => `${name}.kubeconfig`,
  /** Points to the agent's address instead of the gateway's. */
  agentKubeconfig: ({ name }: DemoCluster) => `${name}-agent.kubeconfig`,
  clientCertificate: ({ name }: DemoCluster) => `${name}-client.crt`,
  clientKey: ({ name }: DemoCluster) => `${name}-client.key`,
  token: ({ name }: DemoCluster) => `${name}.token`,
  /** Signs the cluster's id. */
  agentKey: ({ name }: DemoCluster) => `${name}-agent.key`,
  /** The certificate that clients of the uplink `terminate` see. */
  apiServerCertificate: ({ name }: DemoCluster) => `${name}-api-server.crt`,
  apiServerKey: ({ name }: DemoCluster) => `${name}-api-server.key`,
} as const;
