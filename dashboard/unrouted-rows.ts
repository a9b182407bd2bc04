// The last row of the cluster table: connections that belong to no cluster. Most were refused before one was known; the
// others carry streams of several clusters, which are counted there. Open, it shows the reasons of the refusals.

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
          h(
            'p',
            null,
            'Connections refused before their cluster was known; also HTTP/2 connections and agents’ tunnels, whose streams count for their clusters.',
          ),
          reasonChips(counts.reasons, counts.recent?.reasons),
        ),
      ),
  );
}
