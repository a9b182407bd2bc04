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
import type { CheckedBackend, Gateway } from '../gateway/control/gateway.ts';
import { NEVER_MS } from '../gateway/http/check-for-timeouts.ts';
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
import type { Status } from './status.ts';

export interface MetricsView {
  /** Not read before the first scrape. */
  readonly gateway: Gateway;
  /** The version of Node. */
  readonly node: string;
  status(): Status;
  findings(): ReadonlyMap<string, number>;
  /** Duration of table changes, with the buckets of `secondsBuckets`. */
  readonly applySeconds: Histogram;
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

/** Create it when the process starts: the library counts CPU time and garbage collections from then on. */
export function metricsRegistry(view: MetricsView, contentType: RegistryContentType): Registry {
  const registry = new Registry(contentType);
  for (const metric of processMetrics()) registry.registerMetric(metric as unknown as Metric<string>);
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
  return [
    family('causeway_connections_total', 'counter', 'Connections that ended, by reason', () =>
      perRoute(view, (labels, get) =>
        closeReasons.flatMap((reason, index) => {
          const value = get(REASONS_AT + index);
          return value === 0 && reason !== 'done' ? [] : [{ labels: { ...labels, reason }, value }];
        }),
      ),
    ),
    family('causeway_connections_active', 'gauge', 'Connections open now', () =>
      perRoute(view, (labels, get) => (labels.cluster === '' ? [] : [{ labels, value: get(ACTIVE_AT) }])),
    ),
    family('causeway_kept_bytes', 'gauge', 'Memory for bytes that the other side does not take', () =>
      perCluster(view, get => get(KEPT_AT)),
    ),
    family('causeway_bytes_total', 'counter', 'Bytes moved; in is from the client', () =>
      perRoute(view, (labels, get) => [
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
      perRoute(view, (labels, get) =>
        labels.cluster === '' ? [] : histogram('causeway_dial_seconds', labels, slotHistogram(get)),
      ),
    ),
    family('causeway_backend_up', 'gauge', 'Whether the backend is up, once it was checked', () =>
      perBackend(view, (labels, { up }) => (up === null ? [] : [{ labels, value: up ? 1 : 0 }])),
    ),
    family('causeway_health_checks_total', 'counter', 'Health checks, by result', () =>
      perBackend(view, (labels, { checks }) =>
        Object.entries(checks ?? {}).map(([result, value]) => ({ labels: { ...labels, result }, value })),
      ),
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

function perRoute(
  view: MetricsView,
  each: (labels: Record<string, string>, get: Get, slot: number) => Value[],
): Value[] {
  const values: Value[] = [];
  for (const { route, get, slot } of view.gateway.routes()) {
    values.push(...each({ cluster: route?.cluster ?? '', route: route?.route ?? '' }, get, slot));
  }
  return values;
}

/** Summed over the routes of each cluster; an empty label is for connections without a route. */
function perCluster(view: MetricsView, valueOf: (get: Get) => number): Value[] {
  const sums = new Map<string, number>();
  for (const { route, get } of view.gateway.routes()) {
    const cluster = route?.cluster ?? '';
    sums.set(cluster, (sums.get(cluster) ?? 0) + valueOf(get));
  }
  return [...sums].map(([cluster, value]) => ({ labels: { cluster }, value }));
}

function perBackend(
  view: MetricsView,
  each: (labels: Record<string, string>, backend: CheckedBackend) => Value[],
): Value[] {
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

/** A series appears with its first observation. */
function histogram(name: string, labels: Record<string, string>, { counts, sum }: Histogram): Value[] {
  const values: Value[] = [];
  let total = 0;
  counts.forEach((count, bucket) => {
    total += count;
    const le = bucket < secondsBuckets.length ? secondsBuckets[bucket] : '+Inf';
    values.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: total });
  });
  if (total === 0) return [];
  values.push(
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  );
  return values;
}
