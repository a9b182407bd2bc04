// The clusters: filter, order, and the table. Each cluster opens to its routes and their backends.

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
} from './cluster-view.ts';
import { formatCount, plural } from './format.ts';

interface ClusterPanelProps {
  readonly clusters: readonly ClusterView[] | undefined;
  readonly loading: boolean;
  readonly filter: string;
  readonly problemsOnly: boolean;
  readonly onFilter: (filter: string) => void;
  readonly onProblemsOnly: (on: boolean) => void;
  readonly onConnections: (cluster: string) => void;
}

const COLUMNS: readonly { readonly by: SortKey; readonly name: string; readonly about: string }[] = [
  { by: 'name', name: 'Cluster', about: 'by name' },
  { by: 'health', name: 'Backends', about: 'backends that are down first' },
  { by: 'open', name: 'Open', about: 'connections open now' },
  { by: 'rate', name: 'New', about: 'new connections a second' },
  { by: 'total', name: 'Total', about: 'connections since the start' },
  { by: 'in', name: 'In', about: 'bytes from clients, a second' },
  { by: 'out', name: 'Out', about: 'bytes to clients, a second' },
  { by: 'refused', name: 'Refused', about: 'connections that were not let in' },
  { by: 'failed', name: 'Failed', about: 'connections that no backend took, or that it reset' },
];
/** Up to so many clusters are open from the start: then the page needs no click. On a phone none is. */
const OPEN_UP_TO = matchMedia('(max-width: 760px)').matches ? 0 : 5;
/** More are drawn when asked for: thousands of rows, drawn every two seconds, would make the page slow. */
const ROWS = 500;
/** An order by figures that change is settled anew this often, so that rows do not dance. */
const SETTLE_MS = 10_000;

export function ClusterPanel(props: ClusterPanelProps): ComponentChild {
  const { clusters, loading, filter, problemsOnly, onFilter, onProblemsOnly, onConnections } = props;
  const [sort, setSort] = useState<Sort>(firstOrder('name'));
  /** Those that a person has opened or closed; the others are as their number suggests. */
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [rows, setRows] = useState(ROWS);
  const all = clusters ?? [];
  const problems = all.filter(hasProblem).length;
  const matching = filterClusters(all, filter, problemsOnly);
  const shown = useSettledOrder(matching, sort).slice(0, rows);
  const isOpen = (name: string) => chosen.get(name) ?? matching.length <= OPEN_UP_TO;
  const anyOpen = shown.some(({ cluster }) => isOpen(cluster.name));

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
          onChange: event => onProblemsOnly(event.currentTarget.checked),
        }),
        `Problems (${formatCount(problems)})`,
      ),
      h(SortBox, { sort, onSort: setSort }),
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          onClick: () => setChosen(new Map(shown.map(({ cluster }) => [cluster.name, !anyOpen]))),
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
          COLUMNS.map(column => h(ColumnHead, { key: column.by, column, sort, onSort: setSort })),
        ),
      ),
      shown.map(view =>
        h(ClusterRows, {
          key: view.cluster.name,
          view,
          open: isOpen(view.cluster.name),
          onToggle: () =>
            setChosen(before => new Map(before).set(view.cluster.name, !isOpen(view.cluster.name))),
          onConnections,
        }),
      ),
    ),
    shown.length === 0 && h('p', { class: 'empty' }, emptyWord(props, all.length, loading)),
    matching.length > shown.length &&
      h(
        'button',
        { type: 'button', class: 'more', onClick: () => setRows(rows + ROWS) },
        `Show ${plural(Math.min(ROWS, matching.length - shown.length), 'more cluster')} of ${formatCount(matching.length)}`,
      ),
  );
}

function emptyWord(
  { clusters, filter, problemsOnly }: ClusterPanelProps,
  all: number,
  loading: boolean,
): string {
  if (loading) return 'Asking the gateway …';
  if (clusters === undefined) return 'This gateway does not tell its clusters';
  if (all === 0) return 'No cluster is served: add one to the file';
  if (problemsOnly && filter === '') return 'No problems';
  return 'No cluster matches';
}

/** Sorted when order or members change, else every few seconds. */
function useSettledOrder(clusters: readonly ClusterView[], sort: Sort): readonly ClusterView[] {
  const settled = useRef({ at: 0, by: '', names: new Map<string, number>() });
  const by = `${sort.by} ${sort.descending}`;
  const { current } = settled;
  const sameMembers =
    clusters.length === current.names.size &&
    clusters.every(({ cluster }) => current.names.has(cluster.name));
  if (current.by !== by || !sameMembers || performance.now() - current.at > SETTLE_MS) {
    const names = sortClusters(clusters, sort).map(({ cluster }, place) => [cluster.name, place] as const);
    settled.current = { at: performance.now(), by, names: new Map(names) };
  }
  const place = (view: ClusterView) => settled.current.names.get(view.cluster.name) ?? 0;
  return clusters.toSorted((a, b) => place(a) - place(b));
}

function FilterBox({ filter, onFilter }: Pick<ClusterPanelProps, 'filter' | 'onFilter'>): ComponentChild {
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
      if (event.key === 'Escape') onFilter('');
    },
  });
}

interface Sorting {
  readonly sort: Sort;
  readonly onSort: (sort: Sort) => void;
}

/** Where the screen is too narrow for the table's head. */
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

function ColumnHead({
  column,
  sort,
  onSort,
}: Sorting & { readonly column: (typeof COLUMNS)[number] }): ComponentChild {
  const { by, name, about } = column;
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
  );
}
