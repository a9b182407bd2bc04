// Where one agent is reached: `--advertise` as an endpoint of Service `default/kubernetes`, and the annotation of the
// agent's lease, by which agents tell each other.

import { type ServiceEndpoint, serviceEndpoint } from '../kube/service-endpoint.ts';
import { formatIpPort, parseIp } from '../wire/ip-address.ts';

/** `--advertise` cannot be an endpoint. The message says why, and what is allowed. */
export class AdvertiseError extends Error {
  readonly code = 'ERR_ADVERTISE';

  constructor(message: string) {
    super(message);
    this.name = 'AdvertiseError';
  }
}

/** Throws AdvertiseError. */
export function advertisedEndpoint(address: string, port: number): ServiceEndpoint {
  const parsed = serviceEndpoint(address, port);
  if ('endpoint' in parsed) return parsed.endpoint;
  throw new AdvertiseError(
    `--advertise must be an address of this node or pod that other nodes and pods can reach: current value is '${address}', ${parsed.refused}`,
  );
}

/** `10.0.0.1:6443,[2001:db8::1]:6443` */
export function formatEndpoints(endpoints: readonly ServiceEndpoint[]): string {
  return endpoints
    .map(({ address, port }) => formatIpPort(parseIp(address) as Uint8Array, 0, port))
    .join(',');
}

/** Skips entries that are malformed or cannot be endpoints: others may have written them. */
export function parseEndpoints(text: string): ServiceEndpoint[] {
  return text.split(',').flatMap(one => {
    const [, six, four, port] = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/.exec(one) ?? [];
    const number = Number(port);
    if (!(number >= 1 && number <= 65535)) return [];
    const parsed = serviceEndpoint(six ?? four, number);
    return 'endpoint' in parsed ? [parsed.endpoint] : [];
  });
}
