// A certificate that is valid for hosts of two clusters. Browsers reuse an HTTP/2 connection for every host that its
// certificate covers and that has the same address (RFC 9113 9.1.1), so that requests for one cluster go to the other,
// which does not know them.

import { CATCH_ALL } from '../cluster/hostname.ts';
import type { Check } from './check.ts';
import type { SeenRoute } from './world.ts';

export interface SeenCluster {
  readonly name: string;
  readonly seen: readonly SeenRoute[];
}

/** One warning for each pair of clusters; linear in the hosts. */
export function checkSharedCertificates(clusters: readonly SeenCluster[]): readonly Check[] {
  const byHost = new Map<string, { readonly cluster: string; readonly host: string }[]>();
  const http2 = clusters.flatMap(({ name, seen }) =>
    seen.filter(({ alpn }) => alpn === 'h2').map(one => ({ cluster: name, ...one })),
  );
  for (const { cluster, host } of http2) {
    for (const key of [host, parentOf(host)]) {
      byHost.set(key, [...(byHost.get(key) ?? []), { cluster, host }]);
    }
  }
  const checks = new Map<string, Check>();
  for (const { cluster, host, certificate } of http2) {
    for (const name of certificate.names) {
      if (name === CATCH_ALL) continue;
      for (const other of byHost.get(name.replace(/^\*/, '')) ?? []) {
        if (other.cluster === cluster || !certificate.covers(other.host)) continue;
        const key = [cluster, other.cluster].toSorted().join(' ');
        if (!checks.has(key)) checks.set(key, shared(cluster, host, other, name));
      }
    }
  }
  return [...checks.values()];
}

/** `.apps.example.com`, as a wildcard without its star. */
function parentOf(host: string): string {
  return host.slice(host.indexOf('.'));
}

function shared(
  cluster: string,
  host: string,
  other: { readonly cluster: string; readonly host: string },
  name: string,
): Check {
  return {
    step: 'certificates',
    cluster,
    status: 'warn',
    code: 'CertificateShared',
    text: `The certificate of ${host} is valid for ${other.host} of cluster '${other.cluster}' too (by ${name}), and both speak HTTP/2: a browser sends requests for one over its connection to the other, and gets 404 or 421`,
    fix: 'Give each cluster a certificate with its own names only, such as *.apps.CLUSTER.example.com, or turn HTTP/2 off in one of the ingresses',
  };
}
