// A thin bar that is filled in part. Not a <meter>: browsers draw that one differently, and Chromium a second time behind
// its own bar.

import { type ComponentChild, h } from 'preact';

export function bar(tone: string, value: number, of: number): ComponentChild {
  const percent = of === 0 ? 0 : Math.min(100, (value / of) * 100);
  return h(
    'span',
    { class: `bar ${tone}`, 'aria-hidden': 'true' },
    h('span', { class: 'fill', style: { width: `${percent.toFixed(2)}%` } }),
  );
}
