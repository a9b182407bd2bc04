// The first row: figures of the whole gateway, each with a chart of the last minutes.

import { type ComponentChild, h } from 'preact';
import type { AlignedData } from 'uplot';
import type { Reasons, Status } from './api.ts';
import { stateMark } from './backend-state.ts';
import { bar } from './bar.ts';
import { Chart, type Line } from './chart.ts';
import type { ClusterView, Health } from './cluster-view.ts';
import { countOf } from './describe-reason.ts';
import { formatByteRate, formatBytes, formatCount, formatRate, plural } from './format.ts';
import type { View } from './gateway-watch.ts';
import { healthText, toneOf } from './health-text.ts';
import { type History, peakOf } from './history.ts';

interface TileProps {
  readonly name: string;
  readonly figure: ComponentChild;
  /** The last five minutes, and since the start. */
  readonly notes: readonly [string, string];
  readonly history: History;
  readonly lines: readonly (Line & { readonly of: Exclude<keyof History, 'at'> })[];
  readonly format: (value: number) => string;
}

export function Tiles({
  view,
  onProblems,
}: {
  readonly view: View;
  readonly onProblems: () => void;
}): ComponentChild {
  const { status, rates, history } = view;
  const { traffic } = status ?? {};
  const recent = traffic?.recent;
  const lost = (reasons: Reasons) => countOf(reasons, 'refused') + countOf(reasons, 'failed');
  const notes = (inRecent: string | undefined, sinceStart: string | undefined): [string, string] => [
    inRecent === undefined ? '' : `${inRecent} in the last 5 min`,
    sinceStart === undefined ? '' : `${sinceStart} since start`,
  ];
  return h(
    'section',
    { class: 'tiles', 'aria-label': 'The whole gateway' },
    h(HealthTile, { view, onProblems }),
    h(Tile, {
      name: 'Open connections',
      figure: status === undefined ? '–' : formatCount(status.counts.connections),
      notes: [`peak ${formatCount(peakOf(history.open))} in the last 5 min`, ''],
      history,
      lines: [{ of: 'open', name: 'open', colour: '--line-1' }],
      format: formatCount,
    }),
    h(Tile, {
      name: 'New connections',
      figure: formatRate(rates?.connections),
      notes: notes(
        recent && formatCount(recent.opened),
        traffic && formatCount(traffic.connections + (status?.counts.connections ?? 0)),
      ),
      history,
      lines: [{ of: 'connections', name: 'new', colour: '--line-1' }],
      format: formatRate,
    }),
    h(Tile, {
      name: 'Bytes',
      figure: h(
        'span',
        { class: 'pair' },
        h(
          'span',
          { class: 'in' },
          h('i', { 'aria-hidden': 'true' }, '↓'),
          formatByteRate(rates?.bytesIn),
          h('small', null, 'in'),
        ),
        h(
          'span',
          { class: 'out' },
          h('i', { 'aria-hidden': 'true' }, '↑'),
          formatByteRate(rates?.bytesOut),
          h('small', null, 'out'),
        ),
      ),
      notes: notes(recent && bothWays(recent), traffic && bothWays(traffic)),
      history,
      lines: [
        { of: 'bytesIn', name: 'in', colour: '--line-1' },
        { of: 'bytesOut', name: 'out', colour: '--line-2' },
      ],
      format: formatByteRate,
    }),
    h(Tile, {
      name: 'Refused or failed',
      figure: formatRate(rates?.refused),
      notes: notes(
        recent && formatCount(lost(recent.reasons)),
        traffic && formatCount(lost(traffic.reasons)),
      ),
      history,
      lines: [{ of: 'refused', name: 'refused', colour: '--line-3' }],
      format: formatRate,
    }),
  );
}

function bothWays({ bytesIn, bytesOut }: { bytesIn: number; bytesOut: number }): string {
  return `${formatBytes(bytesIn)} in, ${formatBytes(bytesOut)} out`;
}

function Tile({ name, figure, notes, history, lines, format }: TileProps): ComponentChild {
  const data = [history.at, ...lines.map(({ of }) => history[of])] as unknown as AlignedData;
  return h(
    'div',
    { class: 'tile' },
    h('h2', null, name),
    h('p', { class: 'figure' }, figure),
    notes.map((note, index) => h('p', { key: index, class: 'note' }, note || '\u00a0')),
    h(Chart, { name, lines, data, format }),
  );
}

/** The number of clusters, and the health of their backends. */
function HealthTile({
  view: { status, clusters },
  onProblems,
}: {
  readonly view: View;
  readonly onProblems: () => void;
}): ComponentChild {
  const counts = status?.counts;
  const health = gatewayHealth(status, clusters);
  const outages = clusters?.filter(({ outage }) => outage).length ?? 0;
  return h(
    'div',
    { class: 'tile health' },
    h('h2', null, 'Clusters'),
    h('p', { class: 'figure' }, counts === undefined ? '–' : formatCount(counts.clusters)),
    h(
      'p',
      { class: 'note' },
      counts === undefined ? '\u00a0' : `${plural(counts.routes, 'route')}, ${plural(counts.hosts, 'host')}`,
    ),
    h(
      'div',
      { class: 'backends' },
      outages > 0 && problemLine('down', `${plural(outages, 'cluster')} with an outage`, onProblems),
      health !== undefined &&
        (health.down > 0
          ? problemLine('warning', healthText(health, 'backend'), onProblems)
          : h(
              'p',
              { class: `state ${toneOf(health)}` },
              stateMark(toneOf(health)),
              healthText(health, 'backend'),
            )),
      health !== undefined &&
        health.backends > 0 &&
        bar(
          `health ${outages > 0 ? 'down' : toneOf(health)}`,
          health.backends - health.down - health.unknown,
          health.backends,
        ),
    ),
  );
}

function problemLine(tone: 'down' | 'warning', text: string, onProblems: () => void): ComponentChild {
  return h('button', { type: 'button', class: `state ${tone}`, onClick: onProblems }, stateMark(tone), text);
}

function gatewayHealth(
  status: Status | undefined,
  clusters: readonly ClusterView[] | undefined,
): Health | undefined {
  if (clusters === undefined) return status?.health && { ...status.health, unknown: 0, outage: false };
  const sum = (valueOf: (view: ClusterView) => number) =>
    clusters.reduce((total, view) => total + valueOf(view), 0);
  return {
    backends: sum(({ backends }) => backends),
    down: sum(({ down }) => down),
    unknown: sum(({ unknown }) => unknown),
    // Has a line of its own.
    outage: false,
  };
}
