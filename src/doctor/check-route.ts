// The table: where would each host go? As `causeway explain` says, with the health that a running gateway knows.

import type { Cluster } from '../cluster/cluster.ts';
import type { Report } from './check.ts';
import { downAs } from './running-gateway.ts';
import { namesOf, type World } from './world.ts';

export function checkRoutes(
  cluster: Cluster,
  { explainer, running, places }: Pick<World, 'explainer' | 'running' | 'places'>,
  report: Report,
): void {
  const served: string[] = [];
  for (const route of cluster.routes) {
    const place = places.placeOf(route);
    const protocol = route.kind === 'apps-http' ? 'http' : 'tls';
    for (const host of namesOf(route)) {
      // A route that needs an ALPN has no host of its own.
      if (route.alpn.length > 0) continue;
      const explained = explainer.explain({ host, protocol, ...(place && { on: place.listener.on }) });
      const { served: isServed, reason, cluster: taker, route: kind, stages } = explained;
      if (isServed && (taker !== cluster.name || kind !== route.kind)) {
        const text = `${host} leads to cluster '${taker}', route '${kind}', not to '${route.kind}' of this cluster`;
        report.fail('route', 'NotRouted', text, `See causeway explain ${host}, and remove the host there`);
      } else if (isServed) served.push(`${host} → ${kind}`);
      else {
        const why = stages.find(({ ok }) => !ok)?.text ?? '';
        const text = `${host} would be refused (${reason}): ${why}`;
        report.fail(
          'route',
          'NotRouted',
          text,
          `See causeway explain ${host}, and docs/close-reasons.md for ${reason}`,
        );
      }
    }
    for (const { address, why, isOnly } of downAs(running, cluster.name, route.kind)) {
      if (isOnly) continue;
      const text = `${route.kind}: backend ${address} is down (${why}); the others take its connections`;
      report.warn(
        'route',
        'BackendDown',
        text,
        `Look at ${address}: is the server running, and does the gateway reach it?`,
      );
    }
  }
  const [first] = served;
  if (first !== undefined && !report.hasFailed('route')) {
    report.ok('route', served.length === 1 ? first : `${first}, and ${served.length - 1} more`);
  } else if (served.length === 0 && !report.hasFailed('route')) {
    report.skip('route', 'the cluster has no hosts');
  }
}
