// What a person should know about the endpoints of Service `default/kubernetes`, in words.

import type { Finding } from '../cluster/finding.ts';
import type { Family, ServiceEndpoint } from '../kube/service-endpoint.ts';

export interface EndpointsState {
  readonly cluster: string;
  /** Who undoes what agents write. */
  readonly foreignWriter: string | undefined;
  /** Our own addresses that belong to Services. */
  readonly clusterIps: readonly ServiceEndpoint[];
  /** The Service's families, where we have an address of none of them. */
  readonly missingFamilies: readonly Family[];
  /** Agents whose port is not that of most. */
  readonly otherPorts: readonly ServiceEndpoint[];
}

export function findingsOf(state: EndpointsState): Finding[] {
  const { cluster, foreignWriter, clusterIps, missingFamilies, otherPorts } = state;
  const findings: Finding[] = [];
  if (foreignWriter !== undefined) {
    findings.push({
      cluster,
      severity: 'error',
      code: 'EndpointsOverwritten',
      text: `The endpoints of Service default/kubernetes are changed back by '${foreignWriter}', so agents leave them alone for 10 minutes`,
      fix: 'Run the API server with --endpoint-reconciler-type=none, or the agents without --endpoints',
    });
  }
  for (const { address } of clusterIps) {
    findings.push({
      cluster,
      severity: 'error',
      code: 'EndpointIsClusterIp',
      text: `--advertise ${address} is an address of the Service network and cannot be an endpoint`,
      fix: 'Advertise an address of the node or of the pod, or one that --local-address adds',
    });
  }
  if (missingFamilies.length > 0) {
    findings.push({
      cluster,
      severity: 'error',
      code: 'EndpointFamilyMissing',
      text: `Service default/kubernetes has ${missingFamilies.join(' and ')} only, and this agent advertises no such address`,
      fix: `Give --advertise an address of ${missingFamilies[0]}`,
    });
  }
  if (otherPorts.length > 0) {
    findings.push({
      cluster,
      severity: 'warning',
      code: 'EndpointPortsDiffer',
      text: `Agents listen on different ports, and those on another than most are left out: ${[...new Set(otherPorts.map(({ address, port }) => `${address} port ${port}`))].join(', ')}`,
      fix: 'Give every agent of a cluster the same port in --on',
    });
  }
  return findings;
}
