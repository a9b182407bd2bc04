// Konnectivity: gRPC over TLS. Its server must be reached under its host, and speak HTTP/2.

import type { Cluster } from '../cluster/cluster.ts';
import type { Report } from './check.ts';
import type { Place } from './gateway-places.ts';
import type { Network } from './network.ts';
import { namesOf, routeOfKind, type SeenRoute, type World } from './world.ts';

/** The server knows none of the protocols that it is offered (RFC 7301 3.2). */
const NO_APPLICATION_PROTOCOL = 120;

export async function checkKonnectivity(
  cluster: Cluster,
  { network, places }: { readonly network: Pick<Network, 'shake'>; readonly places: World['places'] },
  reached: ReadonlySet<Place>,
  seen: readonly SeenRoute[],
  report: Report,
): Promise<void> {
  const route = routeOfKind(cluster, 'konnectivity');
  if (route === undefined) return;
  const [host] = namesOf(route);
  if (host === undefined && route.connect.length > 0) {
    return report.skip('konnectivity', 'it has no hosts and is reached by CONNECT only');
  }
  if (host === undefined) {
    const text = 'konnectivity has no host, so that its agents cannot reach it by name';
    return report.warn('konnectivity', 'KonnectivityHostMissing', text, 'Add konnectivity.hosts');
  }
  const place = places.placeOf(route);
  if (place === undefined || !reached.has(place) || !seen.some(one => one.route === route)) {
    return report.skip('konnectivity', 'TLS of its host failed or was not checked');
  }
  const shaken = await network.shake({
    at: place.at,
    serverName: host,
    alpn: alpnOf(route.alpn),
    http2: true,
  });
  if (!shaken.ok && shaken.alert !== NO_APPLICATION_PROTOCOL) {
    const fix = 'Look at the log of the konnectivity server, and at that of the gateway for this connection';
    return report.fail(
      'konnectivity',
      'KonnectivitySilent',
      `${host}: the second connection fails: ${shaken.text}`,
      fix,
    );
  }
  const chosen = shaken.ok ? shaken.alpn : undefined;
  if (!shaken.ok || chosen === undefined || (chosen !== 'h2' && !route.alpn.includes(chosen))) {
    const text = `${host} does not negotiate HTTP/2 (${chosen ?? 'no protocol'}), which agents need for gRPC`;
    const fix =
      'Compare the backends with the agent port of the konnectivity server (8132, HyperShift 8091); nothing on the way may open TLS';
    return report.fail('konnectivity', 'KonnectivityNoHttp2', text, fix);
  }
  const { answer } = shaken;
  if (answer === 'silent' || answer === 'closed' || answer === 'other') {
    const did = { silent: 'says nothing', closed: 'closes the connection', other: 'answers something else' }[
      answer
    ];
    const text = `${host} negotiates HTTP/2, and ${did} when it begins`;
    const fix = 'Look at the log of the konnectivity server; does a proxy on the way answer in its place?';
    return report.fail('konnectivity', 'KonnectivitySilent', text, fix);
  }
  const how = answer === 'certificate-wanted' ? ', and asks agents for a certificate' : '';
  report.ok('konnectivity', `${host} speaks HTTP/2${how}`);
}

function alpnOf(own: readonly string[]): readonly string[] {
  return own.length > 0 ? [...own, 'h2'] : ['h2'];
}
