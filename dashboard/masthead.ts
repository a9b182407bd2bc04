// The bar that stays on top: whose page it is, where it listens, which table it serves, whether this page is live.

import { type ComponentChild, h } from 'preact';
import { formatDuration } from './format.ts';
import type { View } from './gateway-watch.ts';

export function Masthead({ view }: { readonly view: View }): ComponentChild {
  const { status } = view;
  return h(
    'header',
    { class: 'masthead' },
    h('h1', null, h('img', { src: 'dashboard/mark.svg', alt: '', width: 24, height: 24 }), 'Causeway'),
    h(
      'dl',
      { class: 'facts' },
      fact('listens on', status?.listeners.map(({ address }) => address).join(', ') || '–', 'wide mono'),
      fact(
        'version',
        status === undefined ? '–' : `${status.version} · ${status.engine} × ${status.workers}`,
      ),
      fact('up for', status === undefined ? '–' : formatDuration(status.uptimeSeconds)),
      fact('generation', status === undefined ? '–' : String(status.generation)),
      fact(
        'config',
        status === undefined ? '–' : configWord(status.config),
        status?.config.ok === false ? 'bad' : '',
      ),
      fact('sources', status === undefined ? '–' : sourcesWord(status.sources), 'extra'),
      status?.leader === true && fact('role', 'leader', 'extra'),
    ),
    contactMark(view),
  );
}

function fact(name: string, value: string, more = ''): ComponentChild {
  return h('div', { class: `fact ${more}` }, h('dt', null, name), h('dd', { title: value }, value));
}

function configWord({ ok, restartNeeded }: { ok: boolean; restartNeeded: readonly string[] }): string {
  if (!ok) return '✕ refused';
  return restartNeeded.length > 0 ? '↻ restart needed' : '✓ served';
}

function sourcesWord(sources: readonly { name: string; up: boolean; synced: boolean }[]): string {
  return sources
    .map(({ name, up, synced }) => `${name}${up ? (synced ? '' : ' (listing)') : ' (down)'}`)
    .join(', ');
}

function contactMark({ contact, live, status }: View): ComponentChild {
  const [tone, word] =
    contact.lost !== undefined
      ? ['lost', 'no contact']
      : status === undefined
        ? ['waiting', 'connecting']
        : live
          ? ['live', 'live']
          : ['polling', 'every 2 s'];
  return h('span', { class: `contact ${tone}`, role: 'status' }, word);
}
