// `causeway render dns` for Cloudflare: records by its API, or a tunnel with cloudflared.

import { type DnsAnswers, typeOf } from './dns-answer.ts';
import { hostsOf } from './zones.ts';

/** Not proxied: Cloudflare would end the TLS that the gateway passes on. */
export function renderCloudflare({ zones, addresses, ttl }: DnsAnswers): string {
  const calls = zones.flatMap(({ name: zone, names }, index) => [
    ...(zones.length === 1 ? [] : [`\n# ${zone}`, `ZONE_ID=$ZONE_ID_${index + 1}`]),
    ...names.flatMap(({ name }) =>
      addresses.map(address => {
        const record = { type: typeOf(address), name, content: address, ttl, proxied: false };
        return `record '${JSON.stringify(record)}'`;
      }),
    ),
  ]);
  const ids =
    zones.length === 1
      ? 'ZONE_ID to the id of the zone at Cloudflare'
      : `${zones.map((_, index) => `ZONE_ID_${index + 1}`).join(', ')} to the ids of the zones at Cloudflare`;
  return `#!/bin/sh
# Set ${ids}, and API_TOKEN to a token that may edit their DNS.
set -eu
record() {
  curl -sSf -X POST "https://api.cloudflare.com/client/v4/zones/$ZONE_ID/dns_records" \\
    -H "Authorization: Bearer $API_TOKEN" -H 'Content-Type: application/json' -d "$1"
}
${calls.join('\n')}
`;
}

/**
 * cloudflared's config.yml. Its hostnames end TLS at Cloudflare and begin another one, so bearer tokens survive and
 * client certificates do not; the server name must be the host's, or the gateway cannot route it.
 */
export function renderCloudflared({ zones, addresses, port }: DnsAnswers): string {
  const [address] = addresses;
  const host = address.includes(':') ? `[${address}]` : address;
  const rules = zones.flatMap(zone =>
    hostsOf(zone).map(
      ({ name }) => `  - hostname: "${name}"
    service: https://${host}:${port}
    originRequest: { matchSNItoHost: true, caPool: /etc/cloudflared/clusters-ca.crt }`,
    ),
  );
  return `# TLS ends at Cloudflare: bearer tokens work, client certificates do not. caPool has the authorities of the clusters.
# For each hostname add a CNAME to TUNNEL-ID.cfargotunnel.com.
tunnel: TUNNEL-ID
credentials-file: /etc/cloudflared/TUNNEL-ID.json
ingress:
${rules.join('\n')}
  - service: http_status:404
`;
}
