// How all connections ended since the start, by reason.

import { type ComponentChild, h } from 'preact';
import type { Reasons } from './api.ts';
import { formatCount } from './format.ts';
import { kindOf, wordsOf } from './reason-words.ts';

export function ReasonTable({ reasons = {} }: { readonly reasons?: Reasons | undefined }): ComponentChild {
  const rows = Object.entries(reasons)
    .filter(([, count]) => count > 0)
    .toSorted(([, a], [, b]) => b - a);
  const total = rows.reduce((sum, [, count]) => sum + count, 0);
  return h(
    'section',
    { class: 'panel', 'aria-labelledby': 'reasons-title' },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', { id: 'reasons-title' }, 'How connections ended'),
      h('small', null, 'since the start'),
    ),
    rows.length === 0
      ? h('p', { class: 'empty' }, 'None has ended yet')
      : h(
          'table',
          { class: 'reasons' },
          h('caption', { class: 'unseen' }, 'Connections that ended, by reason'),
          h(
            'tbody',
            null,
            rows.map(([reason, count]) => reasonRow(reason, count, total)),
          ),
        ),
  );
}

function reasonRow(reason: string, count: number, total: number): ComponentChild {
  return h(
    'tr',
    { key: reason },
    h(
      'th',
      { scope: 'row' },
      h('span', null, wordsOf(reason)),
      h('meter', { class: kindOf(reason), value: count, max: total, 'aria-hidden': 'true' }),
    ),
    h('td', null, formatCount(count), h('small', null, reason)),
  );
}
