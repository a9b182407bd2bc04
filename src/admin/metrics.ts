// /metrics: the workers' counters, read from shared memory for each scrape, and figures of the process. Labels are names
// from the table, never a value that a client chose.

import { setImmediate } from 'node:timers/promises';
import {
  collectDefaultMetrics,
  type Metric,
  Registry,
  type RegistryContentType,
} from '@prometheus-io/client';
import { closeReasons } from '../gateway/close-reason.ts';
import type { CheckedBackend, GatewayPort } from '../gateway/control/gateway-port.ts';
import {
  ACTIVE_AT,
  BYTES_IN_AT,
  BYTES_OUT_AT,
  KEPT_AT,
  REASONS_AT,
  SECONDS_AT,
  SECONDS_SUM_AT,
  secondsBuckets,
} from '../gateway/shared/shared-memory.ts';
import { NEVER_MS } from './check-for-timeouts.ts';
import type { Status } from './status.ts';

export interface MetricsView {
  /** Not read before the first scrape. */
  readonly gateway: GatewayPort;
  /** The version of Node. */
  readonly node: string;
  status(): Status;
  findings(): ReadonlyMap<string, number>;
  /** Duration of table changes, with the buckets of `secondsBuckets`. */
  readonly applySeconds: Histogram;
  /** How many connections may be open: of each cluster that has such a limit, and of the whole gateway (''). */
  connectionLimits(): ReadonlyMap<string, number>;
  /** Certificates whose end is known; each pair of labels once. */
  certificates(): Iterable<CertificateEnd>;
  /** Queries to its DNS servers, by rcode; undefined without one. */
  dnsQueries?(): ReadonlyMap<string, number> | undefined;
}

export interface CertificateEnd {
  /** The one that a cluster's API server presents, or the first of `tunnel` to expire. */
  readonly certificate: 'api' | 'tunnel';
  /** Empty for `tunnel`. */
  readonly cluster: string;
  /** In ms since 1970. */
  readonly notAfter: number;
}

/** Counts per bucket (the last is +Inf) and the sum of the observed values. */
export interface Histogram {
  readonly counts: readonly number[];
  readonly sum: number;
}

interface Value {
  readonly labels: Record<string, string | number>;
  readonly value: number;
  readonly metricName?: string;
}

/** A timer samples the lag of the event loop: rarely, so that an idle gateway sleeps. */
const LAG_EVERY_MS = 10_000;

/** Names that break Prometheus' rules, which `promtool check metrics` refuses. Other families tell the same. */
const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_histogram',
  'nodejs_eventloop_utilization_summary',
];

/**
 * Bounds of a route's histogram, a few of `secondsBuckets`: near, far, slow, and attempts that failed first. All of
 * them would be most of a scrape.
 */
const DIAL_BOUNDS: readonly number[] = [0.01, 0.1, 1];

/** In a table with at most so many routes, every series is there from the start, as Prometheus recommends. */
const SMALL_TABLE = 200;

/** Create it when the process starts: the library counts CPU time and garbage collections from then on. */
export function metricsRegistry(view: MetricsView, contentType: RegistryContentType): Registry {
  const registry = new Registry(contentType);
  for (const metric of processMetrics()) registry.registerMetric(metric as unknown as Metric<string>);
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  for (const metric of oneByOne(families(view))) registry.registerMetric(metric as unknown as Metric<string>);
  return registry;
}

/** A metric of the library, as far as a registry uses it. */
interface Collected {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  get(): Promise<object>;
}

let ofProcess: Registry | undefined;

/**
 * Figures of the process, collected once for all registries: each collector has timers and counts of its own. A registry
 * gets objects of its own, since one for OpenMetrics changes the names of counters.
 */
function processMetrics(): object[] {
  if (ofProcess === undefined) {
    ofProcess = new Registry();
    collectDefaultMetrics({
      register: ofProcess,
      eventLoopMonitoringPrecision: LAG_EVERY_MS,
      // Otherwise ten times a second.
      eventLoopUtilizationTimeout: NEVER_MS,
    });
  }
  const collected = ofProcess.getMetricsAsArray() as unknown as Collected[];
  return collected.map(shared => {
    const { name, type, help } = shared;
    const metric = {
      name,
      type,
      help,
      async get() {
        return { ...(await shared.get()), name: metric.name };
      },
      reset() {},
    };
    return metric;
  });
}

/** What the library reports if nothing was sampled since the last scrape: a lag of 292 years, and NaN. */
const NO_LAG_SAMPLED = /^nodejs_eventloop_lag_\w+ (?:Nan|9223372036\.854776)\n/gm;
/** OpenMetrics 1.0, "Considerations: Canonical Numbers": parsers may insist on 1.0. */
const WHOLE_BOUND = /([{,]le="\d+)"/g;

/** The body of a scrape. The library writes Nan for what both formats call NaN. */
export async function metricsText(registry: Registry): Promise<string> {
  const text = (await registry.metrics()).replaceAll(NO_LAG_SAMPLED, '').replaceAll(/ Nan$/gm, ' NaN');
  const isOpenMetrics = registry.contentType === Registry.OPENMETRICS_CONTENT_TYPE;
  return isOpenMetrics ? text.replaceAll(WHOLE_BOUND, '$1.0"') : text;
}

/** A family whose values are computed for each scrape. */
interface Family {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly values: () => Value[];
}

/**
 * As the registry expects them; it needs no more of a metric than this. It reads all families at once, which takes half a
 * second for a large table: others get a turn of the event loop between two of them.
 */
function oneByOne(families: readonly Family[]): object[] {
  let last: Promise<unknown> = Promise.resolve();
  return families.map(({ name, type, help, values }) => {
    const metric = {
      name,
      type,
      help,
      get() {
        const read = last.then(async () => {
          await setImmediate();
          return { name: metric.name, type, help, values: values() };
        });
        last = read.catch(() => {});
        return read;
      },
      reset() {},
    };
    return metric;
  });
}

function family(name: string, type: string, help: string, values: () => Value[]): Family {
  return { name, type, help, values };
}

function families(view: MetricsView): Family[] {
  const single = (value: number): Value[] => [{ labels: {}, value }];
  // Most routes of a large table are idle, and each has a dozen series: there, those of a route appear with its first
  // connection. The first family of a scrape finds them.
  let used = new Set<string>();
  let isSmall = true;
  const usedRoutes = (each: (labels: Labels, get: Get) => Value[]) =>
    perRoute(view, (labels, get) => (used.has(routeKey(labels)) ? each(labels, get) : []));
  return [
    family('causeway_connections_total', 'counter', 'Connections that ended, by reason', () => {
      used = new Set();
      isSmall = view.status().counts.routes <= SMALL_TABLE;
      return perRoute(view, (labels, get) => {
        const ended = closeReasons
          .map((reason, index) => ({ labels: { ...labels, reason }, value: get(REASONS_AT + index) }))
          .filter(({ value }) => value !== 0);
        const isUsed = ended.length > 0 || [ACTIVE_AT, BYTES_IN_AT, BYTES_OUT_AT].some(at => get(at) !== 0);
        if (!isUsed && !isSmall && labels.cluster !== '') return [];
        used.add(routeKey(labels));
        const isDone = ended.some(value => value.labels.reason === 'done');
        return isDone ? ended : [{ labels: { ...labels, reason: 'done' }, value: 0 }, ...ended];
      });
    }),
    family('causeway_connections_active', 'gauge', 'Connections open now', () =>
      usedRoutes((labels, get) => (labels.cluster === '' ? [] : [{ labels, value: get(ACTIVE_AT) }])),
    ),
    family('causeway_connections_limit', 'gauge', 'Connections that may be open at a time', () =>
      [...view.connectionLimits()]
        .map(([cluster, value]) => ({ labels: { cluster }, value }))
        .filter(({ value }) => Number.isFinite(value)),
    ),
    family('causeway_kept_bytes', 'gauge', 'Memory for bytes that the other side does not take', () =>
      sumByCluster(usedRoutes((labels, get) => [{ labels, value: get(KEPT_AT) }])).filter(
        ({ value }) => isSmall || value !== 0,
      ),
    ),
    family('causeway_bytes_total', 'counter', 'Bytes moved; in is from the client', () =>
      usedRoutes((labels, get) => [
        { labels: { ...labels, direction: 'in' }, value: get(BYTES_IN_AT) },
        { labels: { ...labels, direction: 'out' }, value: get(BYTES_OUT_AT) },
      ]),
    ),
    family('causeway_requests_total', 'counter', 'HTTP requests that ended, by status', () =>
      perRoute(view, (labels, _, slot) =>
        [...view.gateway.requests(slot)].map(([code, value]) => ({ labels: { ...labels, code }, value })),
      ),
    ),
    family('causeway_hello_seconds', 'histogram', 'Accept until it was known where to', () =>
      perRoute(view, (labels, get) =>
        labels.cluster === '' ? histogram('causeway_hello_seconds', {}, slotHistogram(get)) : [],
      ),
    ),
    family('causeway_dial_seconds', 'histogram', 'Until a backend was reached', () =>
      usedRoutes((labels, get) =>
        labels.cluster === ''
          ? []
          : histogram('causeway_dial_seconds', labels, slotHistogram(get), DIAL_BOUNDS),
      ),
    ),
    family('causeway_backend_up', 'gauge', 'Whether the backend is up, once it was checked', () =>
      perBackend(view, (labels, { up }) => (up === null ? [] : [{ labels, value: up ? 1 : 0 }])),
    ),
    family('causeway_health_checks_total', 'counter', 'Health checks, by result', () =>
      perBackend(view, (labels, { checks }) => {
        const isTold = isSmall || checks?.failed;
        return Object.entries(isTold ? (checks ?? {}) : {})
          .filter(([, value]) => value !== 0)
          .map(([result, value]) => ({ labels: { ...labels, result }, value }));
      }),
    ),
    family('causeway_certificate_expiration_timestamp_seconds', 'gauge', 'When a certificate expires', () =>
      [...view.certificates()].map(({ certificate, cluster, notAfter }) => ({
        labels: { certificate, cluster },
        value: notAfter / 1000,
      })),
    ),
    family('causeway_dns_queries_total', 'counter', 'DNS queries, by the rcode of the answer', () =>
      [...(view.dnsQueries?.() ?? [])].map(([rcode, value]) => ({ labels: { rcode }, value })),
    ),
    family('causeway_clusters', 'gauge', 'Clusters served', () => single(view.status().counts.clusters)),
    family('causeway_routes', 'gauge', 'Routes served', () => single(view.status().counts.routes)),
    family('causeway_findings', 'gauge', 'Findings, by severity', () =>
      [...view.findings()].map(([severity, value]) => ({ labels: { severity }, value })),
    ),
    family('causeway_table_generation', 'gauge', 'Changes of the table so far', () =>
      single(view.status().generation),
    ),
    family('causeway_table_apply_seconds', 'histogram', 'Until a change was served by every worker', () =>
      histogram('causeway_table_apply_seconds', {}, view.applySeconds),
    ),
    family('causeway_config_ok', 'gauge', '1 when the file as it stands is served', () =>
      single(view.status().config.ok ? 1 : 0),
    ),
    family('causeway_source_up', 'gauge', '1 when the source can be read', () =>
      view.status().sources.map(source => ({ labels: { source: source.name }, value: source.up ? 1 : 0 })),
    ),
    family('causeway_leader', 'gauge', '1 when this replica writes to Kubernetes', () =>
      single(view.status().leader ? 1 : 0),
    ),
    family('causeway_build_info', 'gauge', 'Always 1', () => {
      const { version, engine } = view.status();
      return [{ labels: { version, engine, node: view.node }, value: 1 }];
    }),
  ];
}

type Get = (offset: number) => number;
type Labels = Record<string, string>;

function routeKey({ cluster, route }: Labels): string {
  return `${cluster}/${route}`;
}

function perRoute(view: MetricsView, each: (labels: Labels, get: Get, slot: number) => Value[]): Value[] {
  const values: Value[] = [];
  for (const { route, get, slot } of view.gateway.routes()) {
    values.push(...each({ cluster: route?.cluster ?? '', route: route?.route ?? '' }, get, slot));
  }
  return values;
}

/** An empty label is for connections without a route. */
function sumByCluster(values: readonly Value[]): Value[] {
  const sums = new Map<string, number>();
  for (const { labels, value } of values) {
    const cluster = String(labels.cluster);
    sums.set(cluster, (sums.get(cluster) ?? 0) + value);
  }
  return [...sums].map(([cluster, value]) => ({ labels: { cluster }, value }));
}

function perBackend(view: MetricsView, each: (labels: Labels, backend: CheckedBackend) => Value[]): Value[] {
  const values: Value[] = [];
  for (const checked of view.gateway.backends()) {
    const { cluster, route, backend } = checked;
    values.push(...each({ cluster, route, backend }, checked));
  }
  return values;
}

function slotHistogram(get: Get): Histogram {
  return {
    counts: Array.from({ length: secondsBuckets.length + 1 }, (_, bucket) => get(SECONDS_AT + bucket)),
    sum: get(SECONDS_SUM_AT),
  };
}

/** A series appears with its first observation. `bounds` are some of `secondsBuckets`. */
function histogram(
  name: string,
  labels: Labels,
  { counts, sum }: Histogram,
  bounds: readonly number[] = secondsBuckets,
): Value[] {
  const values: Value[] = [];
  let total = 0;
  counts.forEach((count, bucket) => {
    total += count;
    const le = secondsBuckets[bucket];
    if (le !== undefined && !bounds.includes(le)) return;
    values.push({ metricName: `${name}_bucket`, labels: { ...labels, le: le ?? '+Inf' }, value: total });
  });
  if (total === 0) return [];
  values.push(
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  );
  return values;
}
