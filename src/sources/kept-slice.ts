// What sources keep of an EndpointSlice: its addresses and ports. Tenants may write slices themselves, so any field may
// be missing or of the wrong type.

import type { EndpointSlice } from '../kube/kube-object.ts';
import { formatIp, parseIp } from '../wire/ip-address.ts';
import { listOf, recordOf, type TcpPort, tcpPorts } from './kept-service.ts';

export interface KeptSlice {
  /** Key of its Service, `<namespace>/<name>`; undefined where it belongs to none. */
  readonly service: string | undefined;
  /** Their numbers are those of the endpoints; their names those of the Service's ports. */
  readonly ports: readonly TcpPort[];
  /** RFC 5952's text. */
  readonly ready: readonly string[];
  readonly notReady: readonly string[];
}

const SERVICE_LABEL = 'kubernetes.io/service-name';

export function keepSlice(slice: EndpointSlice): KeptSlice {
  const { addressType, endpoints, ports, metadata } = slice;
  const service = recordOf(metadata.labels)[SERVICE_LABEL];
  const ready: string[] = [];
  const notReady: string[] = [];
  // Names (type FQDN) could be resolved to any address by whoever controls them.
  const isUsed = addressType === 'IPv4' || addressType === 'IPv6';
  for (const endpoint of isUsed ? listOf(endpoints) : []) {
    const { addresses, conditions } = recordOf(endpoint);
    // A missing condition counts as ready: that is what the API prescribes.
    const into = recordOf(conditions).ready === false ? notReady : ready;
    for (const address of listOf(addresses)) {
      const ip = typeof address === 'string' ? parseIp(address) : undefined;
      if (ip !== undefined) into.push(formatIp(ip, 0));
    }
  }
  return {
    service: typeof service === 'string' ? `${metadata.namespace ?? ''}/${service}` : undefined,
    ports: tcpPorts(ports),
    ready,
    notReady,
  };
}
