// TLS through the gateway: each host of each route is asked for by name, and the certificate that comes back is judged.

import type { Cluster, Route } from '../cluster/cluster.ts';
import { formatHostPort } from '../config/address.ts';
import type { Report } from './check.ts';
import type { Place } from './gateway-places.ts';
import { judgeCertificate } from './judge-certificate.ts';
import type { Network, Shaken } from './network.ts';
import { downAs, type RunningGateway } from './running-gateway.ts';
import { inParallel, isTlsRoute, namesOf, type SeenRoute, type World } from './world.ts';

const AT_ONCE = 4;
/** Of one route; the certificate that these present is judged for all. */
const MAX_HOSTS = 8;
/** What kubectl and browsers offer. */
const USUAL_ALPN = ['h2', 'http/1.1'];

const UNRECOGNIZED_NAME = 112;
const ACCESS_DENIED = 49;
const INTERNAL_ERROR = 80;

export interface TlsSettings {
  /** The authority of the cluster, where a kubeconfig names it. */
  readonly ca?: string | Buffer | undefined;
  /** Addresses of Service default/kubernetes. */
  readonly serviceIps: readonly string[];
}

/** The routes that answered. */
export async function checkTls(
  cluster: Cluster,
  world: Pick<World, 'network' | 'places' | 'running' | 'now'>,
  reached: ReadonlySet<Place>,
  { ca, serviceIps }: TlsSettings,
  report: Report,
): Promise<readonly SeenRoute[]> {
  const { network, places, running, now } = world;
  const seen: SeenRoute[] = [];
  for (const route of cluster.routes.filter(isTlsRoute)) {
    const names = namesOf(route);
    if (names.length === 0) continue;
    const place = places.placeOf(route);
    if (place === undefined) {
      report.skip('tls', `no listener with a known port serves ${route.kind}: give --address IP:PORT`);
      continue;
    }
    if (!reached.has(place)) {
      report.skip('tls', `${route.kind}: ${formatHostPort(place.at.host, place.at.port)} cannot be reached`);
      continue;
    }
    const alpn = route.alpn.length > 0 ? route.alpn : USUAL_ALPN;
    const isApi = route.kind === 'api';
    const shakes = await inParallel(names.slice(0, MAX_HOSTS), AT_ONCE, async host => ({
      host,
      shaken: await network.shake({ at: place.at, serverName: host, alpn, ...(isApi && ca && { ca }) }),
    }));
    const failed = shakes.find(({ shaken }) => !shaken.ok);
    if (failed !== undefined) {
      await refused(cluster, route, failed.host, failed.shaken as Failure, { network, running }, report);
      continue;
    }
    const answered = shakes.flatMap(({ host, shaken }) => (shaken.ok ? [{ route, host, ...shaken }] : []));
    seen.push(...answered);
    const inside = isApi ? { hasId: cluster.id !== undefined, serviceIps } : undefined;
    judgeCertificate({ cluster, route, names, answered, inside }, now(), report);
  }
  return seen;
}

type Failure = Extract<Shaken, { ok: false }>;

async function refused(
  cluster: Cluster,
  route: Route,
  host: string,
  { why, alert, text }: Failure,
  { network, running }: { readonly network: Network; readonly running: RunningGateway | undefined },
  report: Report,
): Promise<void> {
  // HAProxy as the engine sends no alerts.
  const isClosed = why === 'closed' || why === 'reset';
  if (alert === UNRECOGNIZED_NAME) {
    const what = `${host} is refused with alert 112: what answers does not serve that name`;
    const fix =
      'Is it the gateway, and does it run with this file? See causeway status, and its log for unknown-host';
    report.fail('tls', 'NotServed', what, fix);
  } else if (alert === ACCESS_DENIED) {
    const what = `${host} is refused with alert 49: allow does not admit this machine, so the rest cannot be seen from here`;
    const fix = `Run doctor from an address that may connect; causeway explain ${host} --from IP says who may`;
    report.warn('tls', 'NotAllowed', what, fix);
  } else if (alert === INTERNAL_ERROR || (isClosed && downAs(running, cluster.name, route.kind)[0]?.isOnly)) {
    const how = alert === undefined ? 'closed without an alert' : `refused with alert ${alert}`;
    const what = `${host} is ${how}: the gateway reaches no backend of ${route.kind}`;
    report.fail(
      'tls',
      'BackendDown',
      `${what}${await whyDown(cluster, route, network, running)}`,
      BACKEND_FIX,
    );
  } else {
    const fix =
      why === 'not-tls'
        ? 'Is a plain HTTP server, or something that opens TLS, in front of the gateway or behind it?'
        : `Look at the log of the gateway: the reason of that connection says who ended it (docs/close-reasons.md)${isClosed ? '; HAProxy as the engine closes where Causeway sends an alert' : ''}`;
    report.fail('tls', 'TlsFailed', `The handshake with ${host} fails: ${text}`, fix);
  }
}

const BACKEND_FIX = 'Is the server running, is the address right, and does a firewall admit the gateway?';

/** As the gateway's health checks see it, or from here, which may be another machine. */
async function whyDown(
  { name }: Cluster,
  { kind, pool }: Route,
  network: Network,
  running: RunningGateway | undefined,
): Promise<string> {
  const known = downAs(running, name, kind).map(({ address, why }) => `${address} ${why}`);
  if (known.length > 0) return ` (${known.join(', ')})`;
  if (pool.backends.length === 0) return ': it has none';
  const dialled = await inParallel(pool.backends.slice(0, AT_ONCE), AT_ONCE, async ({ host, port, text }) => {
    const result = await network.dial({ host, port });
    return `${text} ${result.ok ? 'accepts connections' : result.text}`;
  });
  return ` (from here: ${dialled.join(', ')})`;
}

/**
 * A hello with post-quantum keys has 1.5 KiB and more, so it comes in several segments. Proxies on the way that look at
 * one read lose some of these connections. Once for each listener.
 */
export async function checkLargeHello(
  seen: readonly (SeenRoute & { readonly place: Place })[],
  network: Pick<Network, 'shake'>,
  report: Report,
): Promise<void> {
  const tried = new Set<Place>();
  for (const { place, host, alpn } of seen) {
    if (tried.has(place)) continue;
    tried.add(place);
    const shaken = await network.shake({
      at: place.at,
      serverName: host,
      alpn: [...(alpn === undefined ? USUAL_ALPN : [alpn]), ...PADDING],
      split: true,
    });
    const at = formatHostPort(place.at.host, place.at.port);
    if (shaken.ok) {
      report.ok('tls', `A hello of over 1.7 KB in two segments passes ${at}`);
      continue;
    }
    const text = `${at} loses a hello that comes in two segments, as current Go, Chrome and OpenSSL send it: ${shaken.text}`;
    const fix =
      'Update or remove what is between the client and the gateway, and compare the MTU of the path: it reads only one segment';
    report.fail('tls', 'LargeHelloLost', text, fix);
  }
}

/** Protocols that no server knows make the hello longer. */
const PADDING = Array.from({ length: 8 }, (_, i) => `causeway-doctor-padding-${i}`.padEnd(200, '.'));
