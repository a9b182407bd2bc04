// The rows of one cluster: its sums, and when open its findings, routes and backends.

import { type ComponentChild, type ComponentChildren, h } from 'preact';
import type { Backend, Cluster, Reasons, Route } from './api.ts';
import { type ClusterView, type Figures, lacksBackends, type RouteView } from './cluster-view.ts';
import { formatByteRate, formatBytes, formatCount, formatMoment, formatRate, plural } from './format.ts';
import { kindOf, wordsOf } from './reason-words.ts';

interface ClusterRowsProps {
  readonly view: ClusterView;
  readonly open: boolean;
  readonly onToggle: () => void;
  readonly onConnections: (cluster: string) => void;
}

/** A route with more names than this shows the first ones; the rest is in the tooltip. */
const HOSTS_SHOWN = 3;

export function ClusterRows({ view, open, onToggle, onConnections }: ClusterRowsProps): ComponentChild {
  const { cluster, routes } = view;
  return h(
    'tbody',
    { role: 'rowgroup', class: open ? 'cluster open' : 'cluster' },
    h(
      'tr',
      { role: 'row', class: 'cluster-row' },
      h(
        'th',
        { scope: 'rowgroup', role: 'rowheader' },
        h(
          'button',
          { type: 'button', class: 'name', 'aria-expanded': open, onClick: onToggle },
          h('span', { class: 'chevron', 'aria-hidden': 'true' }),
          h('span', { class: 'text' }, cluster.name),
          !open && h('small', null, cluster.routes.map(({ kind }) => kind).join(' · ')),
        ),
        findingMark(cluster),
      ),
      cell(
        'Backends',
        stateOf(
          view,
          view.routes.some(({ route }) => lacksBackends(route)),
        ),
        'state-cell',
      ),
      cell(
        'Open',
        view.open === 0
          ? '0'
          : h(
              'button',
              {
                type: 'button',
                class: 'link',
                title: `List the open connections of ${cluster.name}`,
                onClick: () => onConnections(cluster.name),
              },
              formatCount(view.open),
            ),
        dimmed(view.open),
      ),
      figureCells(view),
    ),
    open && aboutRow(cluster),
    open &&
      routes.map(route => [
        routeRow(route),
        ...route.route.backends.map(backend => backendRow(route.route, backend)),
      ]),
  );
}

function figureCells({ total, bytesIn, bytesOut, refused, failed, rates }: Figures): ComponentChild[] {
  return [
    cell('New', formatRate(rates?.connections), dimmed(rates?.connections)),
    cell('Total', formatCount(total), dimmed(total)),
    cell('In', [formatByteRate(rates?.bytesIn), h('small', null, formatBytes(bytesIn))], dimmed(bytesIn)),
    cell('Out', [formatByteRate(rates?.bytesOut), h('small', null, formatBytes(bytesOut))], dimmed(bytesOut)),
    cell('Refused', formatCount(refused), dimmed(refused)),
    cell('Failed', formatCount(failed), failed > 0 ? 'bad' : 'zero'),
  ];
}

/** Nothing has happened there: the eye may pass over it. */
function dimmed(value: number | undefined): string {
  return value === undefined || value === 0 ? 'zero' : '';
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
      troubles(route.reasons ?? {}),
    ),
    cell('Backends', route.redirect ? 'redirect' : stateOf(view, lacksBackends(route)), 'state-cell'),
    cell('Open', formatCount(view.open), dimmed(view.open)),
    figureCells(view),
  );
}

/** What went wrong on a route, by reason; those that were served or left by themselves are in the total. */
function troubles(reasons: Reasons): ComponentChild {
  const told = Object.entries(reasons)
    .filter(([reason, count]) => count > 0 && !['served', 'left'].includes(kindOf(reason)))
    .toSorted(([, a], [, b]) => b - a);
  if (told.length === 0) return false;
  return h(
    'span',
    { class: 'troubles' },
    told.map(([reason, count]) =>
      h(
        'span',
        { key: reason, class: `reason ${kindOf(reason)}`, title: wordsOf(reason) },
        `${reason} `,
        h('b', null, formatCount(count)),
      ),
    ),
  );
}

function backendRow(route: Route, { address, up, connections, health, since, why }: Backend): ComponentChild {
  const [tone, mark, word] = stateWords(up);
  return h(
    'tr',
    {
      role: 'row',
      key: `${route.kind} ${address}`,
      class: up === false ? 'backend-row is-down' : 'backend-row',
    },
    h('th', { scope: 'row', role: 'rowheader' }, h('code', null, address)),
    cell(
      'State',
      [
        h('span', { class: `state ${tone}` }, h('i', { 'aria-hidden': 'true' }, mark), word),
        health !== undefined && h('small', null, health === 'none' ? 'not checked' : `${health} check`),
      ],
      'state-cell',
    ),
    connections === undefined ? cell('', '') : cell('Open', formatCount(connections), dimmed(connections)),
    h('td', { role: 'cell', colSpan: 6, class: 'rest' }, since !== undefined && sinceText(since, why)),
  );
}

/** How a backend's state looks: its class, its mark, its word. */
export function stateWords(up: boolean | null): readonly [tone: string, mark: string, word: string] {
  if (up === null) return ['none', '?', 'unknown'];
  return up ? ['up', '●', 'up'] : ['down', '▲', 'down'];
}

/** Since when it is up or down, and why. */
function sinceText(at: string, why: string | undefined): string {
  const since = `since ${formatMoment(Date.parse(at), Date.now())}`;
  return why ? `${since}: ${why}` : since;
}

function stateOf({ backends, down, unknown }: Figures, lacking: boolean): ComponentChild {
  if (backends === 0) {
    return h(
      'span',
      { class: lacking ? 'state down' : 'state none' },
      lacking && h('i', { 'aria-hidden': 'true' }, '▲'),
      'none',
    );
  }
  if (down === 0 && unknown > 0) {
    const which = unknown === backends ? '' : ` of ${formatCount(backends)}`;
    return h('span', { class: 'state none' }, `${formatCount(unknown)}${which} unknown`);
  }
  const tone = down === 0 ? 'up' : down < backends ? 'some' : 'down';
  return h(
    'span',
    { class: `state ${tone}` },
    h('i', { 'aria-hidden': 'true' }, tone === 'up' ? '●' : '▲'),
    down === 0 ? `${formatCount(backends)} up` : `${formatCount(down)} of ${formatCount(backends)} down`,
  );
}

function findingMark({ findings }: Cluster): ComponentChild {
  const told = findings.filter(({ severity }) => severity !== 'info').length;
  return (
    told > 0 && h('span', { class: 'mark' }, h('i', { 'aria-hidden': 'true' }, '!'), plural(told, 'finding'))
  );
}

/** `label` stands beside the figure where the screen is too narrow for the table's head. */
function cell(label: string, content: ComponentChildren, more = ''): ComponentChild {
  return h('td', { role: 'cell', class: more, 'data-label': label }, content);
}
