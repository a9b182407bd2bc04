// Findings about the endpoints of Service `default/kubernetes`.

import type { Finding } from '../cluster/finding.ts';
import type { Family, ServiceEndpoint } from '../kube/service-endpoint.ts';

export interface EndpointsState {
  readonly cluster: string;
  /** The field manager that reverts what agents write. */
  readonly foreignWriter: string | undefined;
  /** Own addresses that are in the Service network. */
  readonly clusterIps: readonly ServiceEndpoint[];
  /** The Service's families, if we have no address in any of them. */
  readonly missingFamilies: readonly Family[];
  /** Agents that listen on another port than most. */
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
      text: `'${foreignWriter}' reverts the endpoints of Service default/kubernetes, so agents do not write them for 10 minutes`,
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
      text: `Service default/kubernetes has only ${missingFamilies.join(' and ')}, and this agent advertises no such address`,
      fix: `Give --advertise an ${missingFamilies[0]} address`,
    });
  }
  if (otherPorts.length > 0) {
    findings.push({
      cluster,
      severity: 'warning',
      code: 'EndpointPortsDiffer',
      text: `Agents listen on different ports, and those that differ from most are left out: ${[...new Set(otherPorts.map(({ address, port }) => `${address} port ${port}`))].join(', ')}`,
      fix: 'Give every agent of a cluster the same port in --on',
    });
  }
  return findings;
}
