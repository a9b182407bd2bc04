// Why connections ended: in the last five minutes, and since the start.

import { type ComponentChild, h } from 'preact';
import type { Counts } from './api.ts';
import { bar } from './bar.ts';
import { describeReason, kindOf } from './describe-reason.ts';
import { formatCount } from './format.ts';

export function ReasonTable({ traffic }: { readonly traffic: Counts | undefined }): ComponentChild {
  const rows = Object.entries(traffic?.reasons ?? {})
    .filter(([, count]) => count > 0)
    .toSorted(([, a], [, b]) => b - a);
  const total = rows.reduce((sum, [, count]) => sum + count, 0);
  const recent = traffic?.recent?.reasons;
  return h(
    'section',
    { class: 'panel', 'aria-labelledby': 'reasons-title' },
    h('div', { class: 'panel-head' }, h('h2', { id: 'reasons-title' }, 'Why connections ended')),
    rows.length === 0
      ? h('p', { class: 'empty' }, 'None has ended yet')
      : h(
          'table',
          { class: 'reasons' },
          h('caption', { class: 'unseen' }, 'Connections that ended, by reason'),
          h(
            'thead',
            null,
            h(
              'tr',
              null,
              h('th', { scope: 'col' }, 'Reason'),
              h('th', { scope: 'col' }, 'last 5 min'),
              h('th', { scope: 'col' }, 'since start'),
            ),
          ),
          h(
            'tbody',
            null,
            rows.map(([reason, count]) =>
              reasonRow(reason, recent === undefined ? undefined : (recent[reason] ?? 0), count, total),
            ),
          ),
        ),
  );
}

function reasonRow(reason: string, recent: number | undefined, count: number, total: number): ComponentChild {
  return h(
    'tr',
    { key: reason },
    h(
      'th',
      { scope: 'row' },
      h('span', null, describeReason(reason)),
      h('small', null, reason),
      bar(kindOf(reason), count, total),
    ),
    h('td', { class: recent === 0 ? 'zero' : '' }, recent === undefined ? '–' : formatCount(recent)),
    h('td', null, formatCount(count)),
  );
}
