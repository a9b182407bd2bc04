// The cells of the cluster table that show traffic, and the reasons of a route. A cell has two lines, which the head of
// its column names: for counters the last five minutes above and the time since the start below.

import { type ComponentChild, type ComponentChildren, h } from 'preact';
import type { Reasons } from './api.ts';
import type { Totals, Traffic } from './cluster-view.ts';
import { describeReason, kindOf } from './describe-reason.ts';
import { formatByteRate, formatBytes, formatCount, formatRate } from './format.ts';

export const RECENT = 'last 5 min';
export const SINCE_START = 'since start';

/** `label` and the names of the lines are shown where the screen is too narrow for the head of the table. */
export function cell(label: string, content: ComponentChildren, more = ''): ComponentChild {
  return h('td', { role: 'cell', class: more, 'data-label': label }, content);
}

/** Connections, bytes in and out, refused, failed. */
export function trafficCells({ sinceStart, recent, rates }: Traffic): ComponentChild[] {
  const counter = (
    label: string,
    key: keyof Totals,
    format: (value: number) => string,
    isBad = false,
  ): ComponentChild => {
    const now = recent?.[key];
    const bad = isBad && (now ?? sinceStart[key]) > 0;
    return cell(
      label,
      [line('5 min', now === undefined ? '–' : format(now)), line('start', format(sinceStart[key]), 'small')],
      bad ? 'counter bad' : `counter ${dimmed(now)}`,
    );
  };
  return [
    cell(
      'Bytes/s',
      [line('in', formatByteRate(rates?.bytesIn)), line('out', formatByteRate(rates?.bytesOut))],
      dimmed((rates?.bytesIn ?? 0) + (rates?.bytesOut ?? 0)),
    ),
    counter('Connections', 'connections', formatCount),
    counter('In', 'bytesIn', formatBytes),
    counter('Out', 'bytesOut', formatBytes),
    counter('Refused', 'refused', formatCount),
    counter('Failed', 'failed', formatCount, true),
  ];
}

/** Open connections, and new ones per second. */
export function openCell(open: ComponentChild, count: number, { rates }: Traffic): ComponentChild {
  return cell(
    'Open',
    [line('now', open), line('new', formatRate(rates?.connections), 'small')],
    dimmed(count),
  );
}

function line(name: string, value: ComponentChild, tag = 'span'): ComponentChild {
  return h(tag, { class: 'line', 'data-line': name }, value);
}

/** Nothing happened: the eye may pass over it. */
export function dimmed(value: number | undefined): string {
  return value === undefined || value === 0 ? 'zero' : '';
}

/** Reasons for refusals, failures and cuts. Those of the last five minutes have their colour; older ones are grey. */
export function reasonChips(sinceStart: Reasons, recent: Reasons | undefined): ComponentChild {
  const shown = Object.entries(sinceStart)
    .filter(([reason, count]) => count > 0 && !['served', 'left'].includes(kindOf(reason)))
    .toSorted(([a, inAll], [b, inAllOther]) => (recent?.[b] ?? 0) - (recent?.[a] ?? 0) || inAllOther - inAll);
  if (shown.length === 0) return false;
  return h(
    'span',
    { class: 'chips' },
    shown.map(([reason, count]) => {
      const now = recent?.[reason] ?? 0;
      const tone = recent === undefined || now > 0 ? kindOf(reason) : '';
      return h(
        'span',
        { key: reason, class: `reason ${tone}`, title: describeReason(reason) },
        `${reason} `,
        now > 0 && [h('b', null, formatCount(now)), ` in 5 min, `],
        `${formatCount(count)} since start`,
      );
    }),
  );
}
