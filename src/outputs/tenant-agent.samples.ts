// A tenant and the settings of `tenantAgent` for tests.

import type { AgentAddon, Cluster } from '../cluster/cluster.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import type { TenantAgentOptions } from '../config/config.ts';
import type { TenantAgentContext } from './tenant-agent-options.ts';

export function sampleTenant(addon?: Partial<AgentAddon>, cluster: Partial<Cluster> = {}): Cluster {
  return sampleCluster('tenants.a', {
    id: '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11',
    origin: sampleOrigin('steward', 'tenants', 'a'),
    routes: [sampleRoute({ hosts: ['*.a.example.com', 'api.a.example.com'] })],
    controlPlane: {
      isPaused: false,
      kubeconfig: { namespace: 'tenants', secret: 'a-admin-kubeconfig', keys: ['admin.svc', 'admin.conf'] },
      ...(addon && { agent: { hostAliases: [], ...addon } }),
    },
    ...cluster,
  });
}

export const sampleAgentOptions: TenantAgentOptions = {
  imagePullSecrets: [],
  kind: 'Deployment',
  replicas: 2,
  resources: {},
  gateway: 'gw.example.com:443',
  gatewayAddresses: [],
  uplink: 'proxy',
  tolerations: [],
  priorityClassName: 'system-cluster-critical',
};

export const sampleAgentContext: TenantAgentContext = {
  version: '0.1.0',
  writesEndpoints: true,
  tunnelHosts: [],
};
