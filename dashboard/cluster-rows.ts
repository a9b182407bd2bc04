// The rows of one cluster: its sums and, when open, its findings, routes and backends.

import { type ComponentChild, h } from 'preact';
import type { Backend, Cluster } from './api.ts';
import { backendState, healthState } from './backend-state.ts';
import type { ClusterView, RouteView } from './cluster-view.ts';
import { formatCount, formatMoment, plural } from './format.ts';
import { cell, dimmed, openCell, reasonChips, trafficCells } from './traffic-cells.ts';

interface ClusterRowsProps {
  readonly view: ClusterView;
  readonly open: boolean;
  readonly onToggle: () => void;
  readonly onConnections: (cluster: string) => void;
}

/** A route with more hosts than this shows the first ones; its tooltip has all. */
const HOSTS_SHOWN = 3;

export function ClusterRows({ view, open, onToggle, onConnections }: ClusterRowsProps): ComponentChild {
  const { cluster, routes, outage } = view;
  return h(
    'tbody',
    { role: 'rowgroup', class: `cluster${open ? ' open' : ''}${outage ? ' outage' : ''}` },
    h(
      'tr',
      { role: 'row', class: 'cluster-row' },
      h(
        'th',
        { scope: 'rowgroup', role: 'rowheader' },
        rowName(cluster.name, cluster.routes.map(({ kind }) => kind).join(' · '), open, onToggle),
        findingMark(cluster),
      ),
      cell('Backends', clusterState(view), 'state-cell'),
      openCell(openCount(view, onConnections), view.open, view),
      trafficCells(view),
    ),
    open && aboutRow(cluster),
    open &&
      routes.map(route => [
        routeRow(route),
        ...route.route.backends.map(backend => backendRow(route, backend)),
      ]),
  );
}

/** The button that opens and closes a row. `details` are shown while it is closed. */
export function rowName(name: string, details: string, open: boolean, onToggle: () => void): ComponentChild {
  return h(
    'button',
    { type: 'button', class: 'name', 'aria-expanded': open, onClick: onToggle },
    h('span', { class: 'chevron', 'aria-hidden': 'true' }),
    h('span', { class: 'text' }, name),
    !open && h('small', null, details),
  );
}

/** An outage of some routes says which: the other backends of the cluster may be up. */
function clusterState(view: ClusterView): ComponentChild {
  const out = view.routes.filter(({ outage }) => outage);
  const partly = out.length > 0 && out.length < view.routes.length;
  return [
    healthState(view),
    partly && h('small', { class: 'outage-of' }, `outage: ${out.map(({ route }) => route.kind).join(', ')}`),
  ];
}

function openCount({ open, cluster }: ClusterView, onConnections: (name: string) => void): ComponentChild {
  if (open === 0) return '0';
  return h(
    'button',
    {
      type: 'button',
      class: 'link',
      title: `List the open connections of ${cluster.name}`,
      onClick: () => onConnections(cluster.name),
    },
    formatCount(open),
  );
}

function aboutRow({ id, source, findings }: Cluster): ComponentChild {
  if (id === null && findings.length === 0 && source === 'file') return false;
  return h(
    'tr',
    { role: 'row', class: 'about-row' },
    h(
      'td',
      { role: 'cell', colSpan: 9 },
      h(
        'p',
        { class: 'about' },
        id !== null && h('span', null, 'id ', h('code', null, id)),
        source !== 'file' && h('span', null, `from ${source}`),
      ),
      findings.map(({ severity, code, text, fix }) =>
        h(
          'p',
          { key: code + text, class: `finding ${severity}` },
          h('strong', null, severity),
          ` ${text}`,
          fix && h('span', null, ` → ${fix}`),
          h('code', null, code),
        ),
      ),
    ),
  );
}

function routeRow(view: RouteView): ComponentChild {
  const { route } = view;
  return h(
    'tr',
    { role: 'row', key: route.kind, class: 'route-row' },
    h(
      'th',
      { scope: 'row', role: 'rowheader' },
      h('span', { class: 'kind' }, route.kind),
      ' ',
      route.balance !== undefined && route.backends.length > 1 && h('span', { class: 'tag' }, route.balance),
      h(
        'span',
        { class: 'hosts', title: route.hosts.join('\n') },
        route.hosts.slice(0, HOSTS_SHOWN).map(host => h('code', { key: host }, host)),
        route.hosts.length > HOSTS_SHOWN && h('small', null, `and ${route.hosts.length - HOSTS_SHOWN} more`),
      ),
      reasonChips(route.reasons ?? {}, route.recent?.reasons),
    ),
    cell('Backends', route.redirect ? 'redirect' : healthState(view), 'state-cell'),
    openCell(formatCount(view.open), view.open, view),
    trafficCells(view),
  );
}

function backendRow(
  { route, outage }: RouteView,
  { address, up, connections, health, since, why }: Backend,
): ComponentChild {
  return h(
    'tr',
    {
      role: 'row',
      key: `${route.kind} ${address}`,
      class: `backend-row ${up === false ? (outage ? 'down' : 'warning') : ''}`,
    },
    h('th', { scope: 'row', role: 'rowheader' }, h('code', { class: 'address', title: address }, address)),
    cell(
      'State',
      [
        backendState(up, outage),
        health !== undefined && h('small', null, health === 'none' ? 'not checked' : `${health} check`),
      ],
      'state-cell',
    ),
    connections === undefined ? cell('', '') : cell('Open', formatCount(connections), dimmed(connections)),
    h('td', { role: 'cell', colSpan: 6, class: 'rest' }, since !== undefined && sinceText(since, why)),
  );
}

/** Since when it is up or down, and why. */
function sinceText(at: string, why: string | undefined): string {
  const since = `since ${formatMoment(Date.parse(at), Date.now())}`;
  return why ? `${since}: ${why}` : since;
}

function findingMark({ findings }: Cluster): ComponentChild {
  const count = findings.filter(({ severity }) => severity !== 'info').length;
  return (
    count > 0 &&
    h('span', { class: 'mark' }, h('i', { 'aria-hidden': 'true' }, '!'), plural(count, 'finding'))
  );
}
