// Recent refusals in plain sentences. Host names come from clients: they are shown as text and nothing else.

import { type ComponentChild, h } from 'preact';
import { describeReason, kindOf } from './describe-reason.ts';
import { formatClock, formatCount } from './format.ts';
import type { Refusals } from './refusals.ts';

interface RefusalListProps {
  readonly refusals: Refusals;
  readonly onCluster: (cluster: string) => void;
}

export function RefusalList({ refusals: { list, skipped }, onCluster }: RefusalListProps): ComponentChild {
  return h(
    'section',
    { class: 'panel refusals', 'aria-labelledby': 'refusals-title' },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', { id: 'refusals-title' }, 'Recent refusals'),
      skipped > 0 && h('small', null, `${formatCount(skipped)} more not shown`),
    ),
    list.length === 0
      ? h('p', { class: 'empty' }, 'None since this page was opened')
      : h(
          'ol',
          { class: 'feed', tabIndex: 0, 'aria-label': 'Refused connections, newest first' },
          list.map(({ key, at, reason, error, host, client, cluster, times }) =>
            h(
              'li',
              { key },
              h('time', { dateTime: isoOf(at) }, formatClock(at)),
              h(
                'div',
                null,
                h(
                  'p',
                  { class: 'what' },
                  describeReason(reason, error),
                  times > 1 && h('b', { class: 'times' }, `× ${times}`),
                ),
                h(
                  'p',
                  { class: 'who' },
                  host !== '' && h('code', { class: 'host' }, h('bdi', null, host)),
                  client !== '' &&
                    h('span', null, 'from ', h('code', { class: 'address', title: client }, client)),
                  cluster !== '' &&
                    h(
                      'button',
                      { type: 'button', class: 'link', onClick: () => onCluster(cluster) },
                      cluster,
                    ),
                  h('span', { class: `reason ${kindOf(reason)}` }, reason),
                ),
              ),
            ),
          ),
        ),
  );
}

function isoOf(at: number): string {
  return Number.isNaN(at) ? '' : new Date(at).toISOString();
}
