// The last row of the cluster table: connections that belong to no cluster, because they were refused before one was known.
// Open, it shows their reasons.

import { type ComponentChild, h } from 'preact';
import type { Counts } from './api.ts';
import { rowName } from './cluster-rows.ts';
import type { Traffic } from './cluster-view.ts';
import { cell, reasonChips, trafficCells } from './traffic-cells.ts';

/** In the URL. No cluster can have this name, which is no DNS label. */
export const UNROUTED = '(none)';

interface UnroutedRowsProps {
  readonly counts: Counts;
  readonly traffic: Traffic;
  readonly open: boolean;
  readonly onToggle: () => void;
}

export function UnroutedRows({ counts, traffic, open, onToggle }: UnroutedRowsProps): ComponentChild {
  return h(
    'tbody',
    { role: 'rowgroup', class: `cluster unrouted${open ? ' open' : ''}` },
    h(
      'tr',
      { role: 'row', class: 'cluster-row' },
      h(
        'th',
        { scope: 'rowgroup', role: 'rowheader' },
        rowName('No cluster', 'unknown host, not recognized …', open, onToggle),
      ),
      cell('Backends', '–', 'state-cell zero'),
      cell('Open', '–', 'zero'),
      trafficCells(traffic),
    ),
    open &&
      h(
        'tr',
        { role: 'row', class: 'about-row' },
        h(
          'td',
          { role: 'cell', colSpan: 9 },
          h('p', null, 'Connections that ended before it was known which cluster they wanted.'),
          reasonChips(counts.reasons, counts.recent?.reasons),
        ),
      ),
  );
}
