// The panel of clusters: filter, order, and the table. Each cluster opens to its routes and their backends.

import { type ComponentChild, h, type TargetedEvent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ClusterRows } from './cluster-rows.ts';
import {
  type ClusterView,
  filterClusters,
  firstOrder,
  hasProblem,
  type Sort,
  type SortKey,
  sortClusters,
  unroutedMatches,
} from './cluster-view.ts';
import { formatCount, plural } from './format.ts';
import type { View } from './gateway-watch.ts';
import type { PageState } from './page-state.ts';
import { RECENT, SINCE_START } from './traffic-cells.ts';
import { UNROUTED, UnroutedRows } from './unrouted-rows.ts';
import type { Choose } from './use-page-state.ts';

interface ClusterPanelProps {
  readonly clusters: readonly ClusterView[] | undefined;
  readonly unrouted: View['unrouted'];
  readonly loading: boolean;
  readonly state: PageState;
  readonly choose: Choose;
}

interface Column {
  readonly by: SortKey;
  readonly name: string;
  /** What the two lines of its cells are. */
  readonly lines: readonly string[];
  readonly about: string;
}

const counted = [RECENT, SINCE_START];
const COLUMNS: readonly Column[] = [
  { by: 'name', name: 'Cluster', lines: [], about: 'by name' },
  { by: 'health', name: 'Backends', lines: [], about: 'most backends down first' },
  { by: 'open', name: 'Open', lines: ['now', 'new'], about: 'connections open now' },
  { by: 'rate', name: 'Bytes/s', lines: ['in', 'out'], about: 'bytes per second, both ways' },
  { by: 'connections', name: 'Connections', lines: counted, about: 'connections opened' },
  { by: 'in', name: 'In', lines: counted, about: 'bytes from clients' },
  { by: 'out', name: 'Out', lines: counted, about: 'bytes to clients' },
  { by: 'refused', name: 'Refused', lines: counted, about: 'connections that were not admitted' },
  {
    by: 'failed',
    name: 'Failed',
    lines: counted,
    about: 'connections that no backend took, or that a backend reset',
  },
];
/** Up to this many clusters are open at first, so that no click is needed. On a phone none is. */
const OPEN_UP_TO = matchMedia('(max-width: 760px)').matches ? 0 : 5;
/** More rows are drawn on request: thousands of them, drawn every two seconds, would make the page slow. */
const ROWS = 500;
/** While figures change, rows are sorted again this often, so that they do not jump about. */
const SORT_EVERY_MS = 10_000;

export function ClusterPanel(props: ClusterPanelProps): ComponentChild {
  const { clusters, unrouted, state, choose } = props;
  const { filter, problemsOnly, sort } = state;
  const [rows, setRows] = useState(ROWS);
  const all = clusters ?? [];
  const problems = all.filter(hasProblem).length;
  const matching = filterClusters(all, filter, problemsOnly);
  const shown = useSteadyOrder(matching, sort).slice(0, rows);
  const isOpen = (name: string, atFirst = matching.length <= OPEN_UP_TO) =>
    state.rows.get(name) ?? state.rowsOpen ?? atFirst;
  const anyOpen = shown.some(({ cluster }) => isOpen(cluster.name));
  const toggle = (name: string, open: boolean) =>
    choose({ rows: new Map(state.rows).set(name, !open) }, 'replace');
  const onSort = (order: Sort) => choose({ sort: order });
  // Back undoes a filter as a whole, not letter by letter.
  const onFilter = (text: string) =>
    choose({ filter: text }, filter === '' || text === '' ? 'push' : 'replace');
  const shownUnrouted =
    unrouted !== undefined && !problemsOnly && unroutedMatches(unrouted.counts, filter)
      ? unrouted
      : undefined;
  const isUnroutedOpen = isOpen(UNROUTED, false);

  return h(
    'section',
    { class: 'panel clusters', 'aria-labelledby': 'clusters-title' },
    h(
      'div',
      { class: 'panel-head' },
      h(
        'h2',
        { id: 'clusters-title' },
        'Clusters ',
        h(
          'small',
          null,
          matching.length === all.length
            ? formatCount(all.length)
            : `${formatCount(matching.length)} of ${formatCount(all.length)}`,
        ),
      ),
      h(FilterBox, { filter, onFilter }),
      h(
        'label',
        { class: 'toggle' },
        h('input', {
          type: 'checkbox',
          checked: problemsOnly,
          onChange: event => choose({ problemsOnly: event.currentTarget.checked }),
        }),
        `Problems (${formatCount(problems)})`,
      ),
      h(SortBox, { sort, onSort }),
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          onClick: () => choose({ rowsOpen: !anyOpen, rows: new Map() }, 'replace'),
        },
        anyOpen ? 'Close all' : 'Open all',
      ),
    ),
    h(
      'table',
      { class: 'figures', role: 'table' },
      h('caption', { class: 'unseen' }, 'Clusters, their routes and backends'),
      h(
        'thead',
        { role: 'rowgroup' },
        h(
          'tr',
          { role: 'row' },
          COLUMNS.map(column => h(ColumnHead, { key: column.by, column, sort, onSort })),
        ),
      ),
      shown.map(view =>
        h(ClusterRows, {
          key: view.cluster.name,
          view,
          open: isOpen(view.cluster.name),
          onToggle: () => toggle(view.cluster.name, isOpen(view.cluster.name)),
          onConnections: cluster => choose({ connections: cluster }),
        }),
      ),
      shownUnrouted !== undefined &&
        h(UnroutedRows, {
          ...shownUnrouted,
          open: isUnroutedOpen,
          onToggle: () => toggle(UNROUTED, isUnroutedOpen),
        }),
    ),
    shown.length === 0 &&
      !(filter !== '' && shownUnrouted !== undefined) &&
      h('p', { class: 'empty' }, emptyText(props)),
    matching.length > shown.length &&
      h(
        'button',
        { type: 'button', class: 'more', onClick: () => setRows(rows + ROWS) },
        `Show ${plural(Math.min(ROWS, matching.length - shown.length), 'more cluster')} of ${formatCount(matching.length)}`,
      ),
  );
}

function emptyText({ clusters, loading, state }: ClusterPanelProps): string {
  if (loading) return 'Loading …';
  if (clusters === undefined) return 'This gateway does not list its clusters';
  if (clusters.length === 0) return 'No clusters yet: add one to the config file';
  if (state.problemsOnly && state.filter === '') return 'No problems';
  return 'No cluster matches';
}

/** Sorted when the order or the set of clusters changes, otherwise every few seconds. */
function useSteadyOrder(clusters: readonly ClusterView[], sort: Sort): readonly ClusterView[] {
  const last = useRef({ at: 0, by: '', places: new Map<string, number>() });
  const outages = clusters.filter(({ outage }) => outage).length;
  const by = `${sort.by} ${sort.descending} ${outages}`;
  const { current } = last;
  const isSameSet =
    clusters.length === current.places.size &&
    clusters.every(({ cluster }) => current.places.has(cluster.name));
  if (current.by !== by || !isSameSet || performance.now() - current.at > SORT_EVERY_MS) {
    const places = sortClusters(clusters, sort).map(({ cluster }, place) => [cluster.name, place] as const);
    last.current = { at: performance.now(), by, places: new Map(places) };
  }
  const place = (view: ClusterView) => last.current.places.get(view.cluster.name) ?? 0;
  return clusters.toSorted((a, b) => place(a) - place(b));
}

function FilterBox({
  filter,
  onFilter,
}: {
  readonly filter: string;
  readonly onFilter: (filter: string) => void;
}): ComponentChild {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      box.current?.focus();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  return h('input', {
    ref: box,
    type: 'search',
    class: 'filter',
    placeholder: 'Filter by name, host, backend … ( / )',
    'aria-label': 'Filter clusters by name, id, host, route or backend',
    autocomplete: 'off',
    spellcheck: false,
    value: filter,
    onInput: event => onFilter(event.currentTarget.value),
    onKeyDown: event => {
      if (event.key === 'Escape' && filter !== '') onFilter('');
    },
  });
}

interface Sorting {
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
}

/** For screens that are too narrow for the head of the table. */
function SortBox({ sort, onSort }: Sorting): ComponentChild {
  return h(
    'select',
    {
      class: 'sort',
      'aria-label': 'Order of the clusters',
      value: sort.by,
      onChange: (event: TargetedEvent<HTMLSelectElement>) =>
        onSort(firstOrder(event.currentTarget.value as SortKey)),
    },
    COLUMNS.map(({ by, name }) => h('option', { key: by, value: by }, `By ${name.toLowerCase()}`)),
  );
}

function ColumnHead({ column, sort, onSort }: Sorting & { readonly column: Column }): ComponentChild {
  const { by, name, lines, about } = column;
  const current = sort.by === by;
  const next = current ? { by, descending: !sort.descending } : firstOrder(by);
  return h(
    'th',
    {
      scope: 'col',
      role: 'columnheader',
      'aria-sort': current ? (sort.descending ? 'descending' : 'ascending') : 'none',
    },
    h(
      'button',
      { type: 'button', title: `Sort: ${about}`, onClick: () => onSort(next) },
      name,
      h('span', { class: 'arrow', 'aria-hidden': 'true' }, current ? (sort.descending ? '↓' : '↑') : ''),
    ),
    lines.map(line => h('small', { key: line, class: 'line' }, line)),
  );
}
