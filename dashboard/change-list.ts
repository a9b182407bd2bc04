// Recent changes: backends that went up or down, configs that were applied or refused.

import { type ComponentChild, h } from 'preact';
import { backendState } from './backend-state.ts';
import { formatClock, plural } from './format.ts';
import type { Change } from './gateway-watch.ts';

interface ChangeListProps {
  readonly changes: readonly Change[];
  readonly onCluster: (cluster: string) => void;
}

export function ChangeList({ changes, onCluster }: ChangeListProps): ComponentChild {
  return h(
    'section',
    { class: 'panel changes', 'aria-labelledby': 'changes-title' },
    h('div', { class: 'panel-head' }, h('h2', { id: 'changes-title' }, 'Recent changes')),
    changes.length === 0
      ? h('p', { class: 'empty' }, 'None since this page was opened')
      : h(
          'ol',
          { class: 'feed', tabIndex: 0, 'aria-label': 'Changes, newest first' },
          changes.map(change =>
            h(
              'li',
              { key: change.key },
              h('time', { dateTime: change.at }, formatClock(Date.parse(change.at))),
              change.kind === 'health' ? healthText(change, onCluster) : tableText(change),
            ),
          ),
        ),
  );
}

function healthText(
  change: Extract<Change, { kind: 'health' }>,
  onCluster: (cluster: string) => void,
): ComponentChild {
  const { cluster, route, backend, up, why } = change;
  return h(
    'div',
    null,
    h(
      'p',
      { class: 'what' },
      // Whether it is an outage, the table of clusters shows.
      backendState(up, false),
      ' ',
      h('code', { class: 'address', title: backend }, backend),
    ),
    h(
      'p',
      { class: 'who' },
      h('button', { type: 'button', class: 'link', onClick: () => onCluster(cluster) }, cluster),
      h('span', null, route),
      why && h('span', null, why),
    ),
  );
}

function tableText({
  ok,
  generation,
  clusters,
  routes,
  hosts,
  error,
}: Extract<Change, { kind: 'table' }>): ComponentChild {
  return h(
    'div',
    null,
    h('p', { class: 'what' }, ok ? `Generation ${generation} is served` : 'The config file was refused'),
    h(
      'p',
      { class: 'who' },
      ok
        ? `${plural(clusters, 'cluster')}, ${plural(routes, 'route')}, ${plural(hosts, 'host')}`
        : (error ?? '').split('\n')[0],
    ),
  );
}
