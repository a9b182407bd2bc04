// Banners above everything else. Screen readers announce them as they appear.

import { type ComponentChild, h } from 'preact';
import type { Banner } from './banners.ts';

export function BannerList({ banners }: { readonly banners: readonly Banner[] }): ComponentChild {
  return h(
    'div',
    { class: 'banners', 'aria-live': 'assertive' },
    banners.map(({ tone, title, text }) =>
      h(
        'div',
        { key: title, class: `banner ${tone}` },
        h('span', { class: 'glyph', 'aria-hidden': 'true' }, tone === 'error' ? '✕' : '!'),
        h('div', null, h('strong', null, title), text !== '' && h('p', null, text)),
      ),
    ),
  );
}
