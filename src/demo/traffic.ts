// A little traffic of the demo's own, so that the dashboard lives: a request now and then by every way in, watches and
// a WebSocket that stay, and a refusal from time to time. Some requests a second, hardly any CPU.

import { setTimeout as delay } from 'node:timers/promises';
import type { ClusterCertificates } from './cluster-certificates.ts';
import { handshake, visitHttp, visitHttp2, visitHttps, webSocketTexts } from './demo-client.ts';
import { type DemoCluster, helloHost } from './demo-clusters.ts';
import type { Place } from './place.ts';

export interface TrafficTarget {
  readonly cluster: DemoCluster;
  readonly certificates: ClusterCertificates;
  readonly agent: Place;
}

/** Between two requests, on average. */
const PAUSE_MS = 350;
const WAIT_MS = 5000;
/** A watch or a WebSocket is held for this long, and then opened again. */
const HELD_MS = 30_000;
/** One in so many is refused. */
const REFUSED = 25;

/** Goes on until the thread ends. What fails is not its concern: the dashboard shows it. */
export function startTraffic(gateway: Place, targets: readonly TrafficTarget[]): void {
  void repeatedly(async () => {
    await delay(PAUSE_MS * (0.5 + Math.random()));
    const target = pick(targets);
    const visit = Math.random() < 1 / REFUSED ? pick(refusals) : pick(visits);
    await visit(gateway, target, AbortSignal.timeout(WAIT_MS));
  });
  for (const target of targets) {
    void repeatedly(async () => {
      await hold(gateway, target);
      await delay(PAUSE_MS);
    });
  }
}

type VisitOf = (gateway: Place, target: TrafficTarget, signal: AbortSignal) => Promise<unknown>;

const visits: readonly VisitOf[] = [
  (to, { cluster, certificates: { ca, client } }, signal) =>
    visitHttps({ to, name: cluster.apiHost, ca, client, path: pick(apiPaths), signal }),
  (to, { cluster, certificates: { ca, client } }, signal) =>
    visitHttps({ to, name: cluster.apiHost, ca, client, path: pick(apiPaths), signal }),
  (_, { agent, certificates: { ca, token } }, signal) =>
    visitHttps({
      to: agent,
      ca,
      headers: { Authorization: `Bearer ${token}` },
      path: pick(apiPaths),
      signal,
    }),
  (to, { cluster, certificates: { ca } }, signal) =>
    visitHttp2({ to, name: cluster.konnectivityHost, ca, signal }),
  (to, { cluster, certificates: { ca } }, signal) => visitHttps({ to, name: helloHost(cluster), ca, signal }),
  (to, { cluster }, signal) => visitHttp({ to, name: helloHost(cluster), signal }),
];

const apiPaths = ['/version', '/api/v1/nodes', '/api/v1/pods', '/api/v1/namespaces', '/readyz'];

const refusals: readonly VisitOf[] = [
  (to, { certificates: { ca } }, signal) => handshake({ to, name: 'api.nobody.causeway.test', ca, signal }),
  (to, _, signal) => visitHttp({ to, name: 'hello.apps.nobody.localhost', signal }),
  (to, { certificates: { ca } }, signal) => handshake({ to, ca, signal }),
];

/** A watch, as kubectl and every controller keep one open; and beside it, over http, the page's WebSocket. */
async function hold(to: Place, { cluster, certificates: { ca, client } }: TrafficTarget): Promise<void> {
  const seconds = Math.round((HELD_MS / 1000) * (0.5 + Math.random()));
  const path = `/api/v1/pods?watch=true&timeoutSeconds=${seconds}`;
  const signal = AbortSignal.timeout(2 * HELD_MS);
  await Promise.allSettled([
    visitHttps({ to, name: cluster.apiHost, ca, client, path, signal }),
    webSocketTexts({ to, name: helloHost(cluster), signal }, seconds),
  ]);
}

async function repeatedly(work: () => Promise<void>): Promise<never> {
  for (;;) await work().catch(() => {});
}

function pick<T>(choices: readonly T[]): T {
  return choices[Math.floor(Math.random() * choices.length)];
}
