// The bar that stays on top: version, listeners, generation, state of the config file, and whether this page is live.

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
      fact('listeners', status?.listeners.map(({ address }) => address).join(', ') || '–', 'wide mono'),
      fact(
        'version',
        status === undefined ? '–' : `${status.version} · ${status.engine} × ${status.workers}`,
      ),
      fact('uptime', status === undefined ? '–' : formatDuration(status.uptimeSeconds)),
      fact('generation', status === undefined ? '–' : String(status.generation)),
      fact(
        'config',
        status === undefined ? '–' : configText(status.config),
        status?.config.ok === false ? 'bad' : '',
      ),
      fact('sources', status === undefined ? '–' : sourcesText(status.sources), 'extra'),
      status?.leader === true && fact('role', 'leader', 'extra'),
    ),
    contactMark(view),
  );
}

function fact(name: string, value: string, more = ''): ComponentChild {
  return h('div', { class: `fact ${more}` }, h('dt', null, name), h('dd', { title: value }, value));
}

function configText({ ok, restartNeeded }: { ok: boolean; restartNeeded: readonly string[] }): string {
  if (!ok) return '✕ refused';
  return restartNeeded.length > 0 ? '↻ restart needed' : '✓ served';
}

function sourcesText(sources: readonly { name: string; up: boolean; synced: boolean }[]): string {
  return sources
    .map(({ name, up, synced }) => `${name}${up ? (synced ? '' : ' (listing)') : ' (down)'}`)
    .join(', ');
}

function contactMark({ contact, live, status }: View): ComponentChild {
  const [tone, text] =
    contact.lost !== undefined
      ? ['lost', 'unreachable']
      : status === undefined
        ? ['waiting', 'connecting']
        : live
          ? ['live', 'live']
          : ['polling', 'every 2 s'];
  return h('span', { class: `contact ${tone}`, role: 'status' }, text);
}
