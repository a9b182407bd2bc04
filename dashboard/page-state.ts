// The choices that a person has made on the page, kept in the fragment of its URL: they survive a reload, can be shared
// as a link, and the Back button undoes them. The fragment never leaves the browser.

import { firstOrder, type Sort, sortKeys } from './cluster-view.ts';

export interface PageState {
  readonly filter: string;
  readonly problemsOnly: boolean;
  readonly sort: Sort;
  /** Whether rows are open that were not chosen one by one; undefined: while there are few of them. */
  readonly rowsOpen: boolean | undefined;
  /** Rows that were opened (true) or closed one by one. */
  readonly rows: ReadonlyMap<string, boolean>;
  /** The cluster whose open connections are listed; '' lists all, undefined closes the panel. */
  readonly connections: string | undefined;
}

export const initialState: PageState = {
  filter: '',
  problemsOnly: false,
  sort: firstOrder('name'),
  rowsOpen: undefined,
  rows: new Map(),
  connections: undefined,
};

/** Anything unknown in the fragment is ignored: links may be old, and are typed by hand. */
export function readState(fragment: string): PageState {
  const params = new URLSearchParams(fragment.replace(/^#/, ''));
  const rows = params.get('rows');
  return {
    filter: params.get('filter') ?? '',
    problemsOnly: params.has('problems'),
    sort: readSort(params.get('sort'), params.get('order')),
    rowsOpen: rows === 'open' ? true : rows === 'closed' ? false : undefined,
    rows: new Map([
      ...params.getAll('open').map(name => [name, true] as const),
      ...params.getAll('closed').map(name => [name, false] as const),
    ]),
    connections: params.get('connections') ?? undefined,
  };
}

/** Empty for the initial state; otherwise with its `#`. */
export function writeState({ filter, problemsOnly, sort, rowsOpen, rows, connections }: PageState): string {
  const params = new URLSearchParams();
  if (filter !== '') params.set('filter', filter);
  if (problemsOnly) params.set('problems', 'yes');
  if (sort.by !== initialState.sort.by) params.set('sort', sort.by);
  if (sort.descending !== firstOrder(sort.by).descending)
    params.set('order', sort.descending ? 'descending' : 'ascending');
  if (rowsOpen !== undefined) params.set('rows', rowsOpen ? 'open' : 'closed');
  for (const [name, open] of rows) params.append(open ? 'open' : 'closed', name);
  if (connections !== undefined) params.set('connections', connections);
  const text = params.toString();
  return text === '' ? '' : `#${text}`;
}

function readSort(by: string | null, order: string | null): Sort {
  const first = firstOrder(sortKeys.find(key => key === by) ?? initialState.sort.by);
  return order === 'ascending' || order === 'descending'
    ? { by: first.by, descending: order === 'descending' }
    : first;
}
