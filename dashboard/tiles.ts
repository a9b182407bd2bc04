// The first row: the figures of the whole gateway, each with its last minutes.

import { type ComponentChild, h } from 'preact';
import type { AlignedData } from 'uplot';
import { Chart, type Line } from './chart.ts';
import { formatByteRate, formatBytes, formatCount, formatRate, plural } from './format.ts';
import type { View } from './gateway-watch.ts';
import { type History, peakOf } from './history.ts';
import { countOf } from './reason-words.ts';

interface TileProps {
  readonly name: string;
  readonly figure: ComponentChild;
  readonly note: string;
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
  const traffic = status?.traffic;
  const ended = traffic?.connections;
  const refused = traffic && countOf(traffic.reasons, 'refused') + countOf(traffic.reasons, 'failed');
  return h(
    'section',
    { class: 'tiles', 'aria-label': 'The whole gateway' },
    h(HealthTile, { view, onProblems }),
    h(Tile, {
      name: 'Open connections',
      figure: status === undefined ? '–' : formatCount(status.counts.connections),
      note: `peak ${formatCount(peakOf(history.open))}`,
      history,
      lines: [{ of: 'open', name: 'open', colour: '--line-1' }],
      format: formatCount,
    }),
    h(Tile, {
      name: 'New connections',
      figure: formatRate(rates?.connections),
      note:
        ended === undefined
          ? ''
          : `${formatCount(ended + (status?.counts.connections ?? 0))} since the start`,
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
      note:
        traffic === undefined
          ? ''
          : `${formatBytes(traffic.bytesIn)} in, ${formatBytes(traffic.bytesOut)} out`,
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
      note: refused === undefined ? '' : `${formatCount(refused)} since the start`,
      history,
      lines: [{ of: 'refused', name: 'refused', colour: '--line-3' }],
      format: formatRate,
    }),
  );
}

function Tile({ name, figure, note, history, lines, format }: TileProps): ComponentChild {
  const data = [history.at, ...lines.map(({ of }) => history[of])] as unknown as AlignedData;
  return h(
    'div',
    { class: 'tile' },
    h('h2', null, name),
    h('p', { class: 'figure' }, figure),
    h('p', { class: 'note' }, note || '\u00a0'),
    h(Chart, { name, lines, data, format }),
  );
}

/** How many clusters there are, and how their backends are. */
function HealthTile({
  view,
  onProblems,
}: {
  readonly view: View;
  readonly onProblems: () => void;
}): ComponentChild {
  const { status, clusters } = view;
  const backends = clusters?.reduce((sum, cluster) => sum + cluster.backends, 0) ?? status?.health?.backends;
  const down = clusters?.reduce((sum, cluster) => sum + cluster.down, 0) ?? status?.health?.down ?? 0;
  const counts = status?.counts;
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
    backends !== undefined &&
      h(
        'div',
        { class: 'backends' },
        down === 0
          ? h(
              'span',
              { class: 'state up' },
              h('i', { 'aria-hidden': 'true' }, '●'),
              `${plural(backends, 'backend')} up`,
            )
          : h(
              'button',
              { type: 'button', class: 'state down', onClick: onProblems },
              h('i', { 'aria-hidden': 'true' }, '▲'),
              `${formatCount(down)} of ${plural(backends, 'backend')} down`,
            ),
        backends > 0 &&
          h('meter', { class: 'up', value: backends - down, max: backends, 'aria-hidden': 'true' }),
      ),
  );
}
