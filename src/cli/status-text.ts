// Formats the status of a gateway for people: the overall state first, then the clusters, one line per route.

import type { BackendAnswer, ClusterAnswer, RouteAnswer } from '../admin/clusters.ts';
import type { StatusAnswer } from '../admin/status.ts';
import { printable } from '../text/printable.ts';
import { bytesText } from './bytes-text.ts';
import { refusedOf } from './choose-clusters.ts';
import { countText } from './count-text.ts';
import { durationText } from './duration-text.ts';

type Paint = (code: string, text: string) => string;

const GREEN = '32';
const RED = '31';
const YELLOW = '33';
const DIM = '2';
const BOLD = '1';

/** A pool of dozens would push everything else off the screen. */
const MOST_BACKENDS = 4;

export interface Answers {
  readonly status: StatusAnswer;
  readonly all: readonly ClusterAnswer[];
  /** The clusters to show; default all. */
  readonly shown?: readonly ClusterAnswer[];
  /** Why the gateway is not ready. */
  readonly notReady?: string | undefined;
  /** Show hosts and all backends. */
  readonly isWhole?: boolean;
  /** Show only problems. */
  readonly problems?: boolean;
}

export function statusText(answers: Answers, paint: Paint): string {
  const { status, all, shown = all, notReady, isWhole = false, problems = false } = answers;
  const lines = [
    ...head(status, all, notReady, paint),
    ...(problems && shown.length === 0 && status.findings.length === 0
      ? [`${paint(DIM, 'problems ')} ${paint(GREEN, 'none')}`]
      : []),
    ...(isWhole ? [] : unserved(status, paint)),
    ...findings(shown, paint),
    ...(isWhole ? objects(shown, paint) : []),
    ...table(shown, isWhole, paint),
    ...(isWhole ? hosts(shown, paint) : []),
  ];
  return `${lines.join('\n')}\n`;
}

function head(
  status: StatusAnswer,
  clusters: readonly ClusterAnswer[],
  notReady: string | undefined,
  paint: Paint,
): string[] {
  const { version, engine, workers, uptimeSeconds, generation, listeners, counts, traffic } = status;
  const line = (name: string, text: string) => `${paint(DIM, name.padEnd(9))} ${text}`;
  const reasons = refusedOf(traffic.reasons);
  return [
    `${paint(BOLD, `causeway ${printable(version)}`)}  ${printable(engine)}, ${countText(workers, 'worker')}, up ${durationText(uptimeSeconds * 1000)}`,
    ...(notReady === undefined ? [] : [line('ready', paint(RED, `✗ ${printable(notReady)}`))]),
    line('listen', listeners.map(listenerText).join(', ') || 'nowhere'),
    line('file', `${fileText(status, paint)}, generation ${generation}`),
    ...(status.sources.length > 1 ? [line('sources', sourcesText(status, paint))] : []),
    line('serves', servesText(status, clusters, paint)),
    line(
      'traffic',
      `${counts.connections} open, ${counts.draining === 0 ? '' : `${counts.draining} more with replaced processes, `}${traffic.connections} ended, in ${bytesText(traffic.bytesIn)}, out ${bytesText(traffic.bytesOut)}`,
    ),
    line(
      'refused',
      reasons.length === 0
        ? 'none'
        : reasons.map(([reason, count]) => `${printable(reason)} ${count}`).join(', '),
    ),
  ];
}

function listenerText({ on, address }: StatusAnswer['listeners'][number]): string {
  return on === address ? printable(on) : `${printable(on)} (${printable(address)})`;
}

function fileText({ config }: StatusAnswer, paint: Paint): string {
  const restart =
    config.restartNeeded.length === 0
      ? ''
      : `, ${paint(YELLOW, `restart needed for ${config.restartNeeded.map(printable).join(', ')}`)}`;
  if (config.ok) return `${paint(GREEN, '✓')} valid and served${restart}`;
  const mistakes = (config.error ?? '').split('\n').map(printable);
  return `${paint(RED, '✗ refused')}, still serving the last good one: ${mistakes.join('; ')}${restart}`;
}

/** All but the file, which has a line of its own. */
function sourcesText({ sources, leader }: StatusAnswer, paint: Paint): string {
  const shown = sources.slice(1).map(({ name, up, synced, error }) => {
    if (up && synced) return `${paint(GREEN, '✓')} ${printable(name)}`;
    const why = error === null ? 'not listed yet' : printable(error);
    return `${paint(RED, '✗')} ${printable(name)}: ${why}`;
  });
  return `${shown.join(', ')}${leader ? ', this replica writes' : ''}`;
}

function servesText(
  { counts, health: { stretch } }: StatusAnswer,
  clusters: readonly ClusterAnswer[],
  paint: Paint,
): string {
  const backends = clusters.flatMap(({ routes }) => routes.flatMap(route => route.backends));
  const down = backends.filter(({ up }) => up === false).length;
  const unknown = backends.filter(({ up, health }) => up === null && health !== 'none').length;
  const health = [
    ...(down === 0 ? [] : [`, ${paint(RED, `${down} down`)}`]),
    ...(unknown === 0 ? [] : [`, ${paint(YELLOW, `${unknown} not checked yet`)}`]),
  ].join('');
  const slow = stretch > 1 ? `, ${paint(YELLOW, `checked ${stretch} times less often than configured`)}` : '';
  const { clusters: names, routes, hosts } = counts;
  return `${countText(names, 'cluster')}, ${countText(routes, 'route')}, ${countText(hosts, 'host')}, ${countText(backends.length, 'backend')}${health}${slow}`;
}

function findings(clusters: readonly ClusterAnswer[], paint: Paint): string[] {
  return clusters.flatMap(({ name, findings }) =>
    findings.map(({ severity, text, fix }) => {
      const mark = paint(severity === 'error' ? RED : YELLOW, severity);
      return `${mark} ${printable(name)}: ${printable(text)}. ${printable(fix)}`;
    }),
  );
}

/** Of no cluster that is served. */
function unserved({ findings }: StatusAnswer, paint: Paint): string[] {
  return findings.map(({ severity, text, fix, source, object }) => {
    const mark = paint(severity === 'error' ? RED : YELLOW, severity);
    return `${mark} ${printable(object ?? source ?? 'file')}: ${printable(text)}. ${printable(fix)}`;
  });
}

/** Where a cluster comes from, if not from the file. */
function objects(clusters: readonly ClusterAnswer[], paint: Paint): string[] {
  return clusters
    .filter(({ source }) => source !== 'file')
    .map(({ source, object }) => {
      const named = object === null ? '' : `, ${object.kind} ${object.namespace}/${object.name}`;
      return `${paint(DIM, 'from'.padEnd(9))} ${printable(`${source}${named}`)}`;
    });
}

function hosts(clusters: readonly ClusterAnswer[], paint: Paint): string[] {
  const rows = clusters.flatMap(({ routes }) =>
    routes.flatMap(({ kind, hosts }) => hosts.map(host => [printable(kind), printable(host)] as const)),
  );
  const width = Math.max('route'.length, ...rows.map(([kind]) => kind.length));
  const line = (kind: string, host: string) => `${kind.padEnd(width)}  ${host}`;
  return rows.length === 0
    ? []
    : ['', paint(DIM, line('route', 'host')), ...rows.map(([kind, host]) => line(kind, host))];
}

const columns = ['cluster', 'route', 'open', 'in', 'out', 'refused', 'backends'] as const;
/** Columns of figures, aligned right. */
const FIGURES = new Set([2, 3, 4, 5]);

function table(clusters: readonly ClusterAnswer[], isWhole: boolean, paint: Paint): string[] {
  const rows = clusters.flatMap(({ name, routes }) =>
    routes.map((route, index) => [
      index === 0 ? printable(name) : '',
      printable(route.kind),
      String(route.connections),
      bytesText(route.bytesIn),
      bytesText(route.bytesOut),
      String(refusedOf(route.reasons).reduce((sum, [, count]) => sum + count, 0)),
      backendsText(route, isWhole ? Number.POSITIVE_INFINITY : MOST_BACKENDS, paint),
    ]),
  );
  if (rows.length === 0) return [];
  const widths = columns.map((name, at) => Math.max(name.length, ...rows.map(row => row[at].length)));
  const aligned = (cells: readonly string[]) =>
    cells
      .map((cell, at) => {
        if (at === cells.length - 1) return cell;
        return FIGURES.has(at) ? cell.padStart(widths[at]) : cell.padEnd(widths[at]);
      })
      .join('  ');
  return ['', paint(DIM, aligned(columns)), ...rows.map(aligned)];
}

function backendsText({ backends, redirect }: RouteAnswer, most: number, paint: Paint): string {
  if (redirect) return 'redirect to https';
  if (backends.length === 0) return paint(YELLOW, 'none');
  // Backends that are down first, then those with unknown health.
  const shown = backends.toSorted((a, b) => rank(a) - rank(b)).slice(0, most);
  const more = backends.length - shown.length;
  return `${shown.map(backend => backendText(backend, paint)).join('  ')}${more === 0 ? '' : `  and ${more} more`}`;
}

function backendText({ address, up, why, connections }: BackendAnswer, paint: Paint): string {
  const busy = connections === 0 ? '' : paint(DIM, ` (${connections})`);
  if (up === null) return `${paint(YELLOW, '?')} ${printable(address)}${busy}`;
  if (up) return `${paint(GREEN, '✓')} ${printable(address)}${busy}`;
  return `${paint(RED, '✗')} ${printable(address)}${busy}${why === undefined ? '' : paint(RED, ` ${printable(why)}`)}`;
}

function rank({ up }: BackendAnswer): number {
  return up === false ? 0 : up === null ? 1 : 2;
}
