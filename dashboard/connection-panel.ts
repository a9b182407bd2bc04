// The open connections, of all clusters or of one: asked for only while the panel is open. An admin may end one, after
// being asked; whether this user is an admin shows in the gateway's answer.

import { type ComponentChild, type ComponentChildren, h, type TargetedEvent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { AnswerError, askConnections, type Connection, endConnection } from './api.ts';
import { formatBytes, formatCount, formatDuration } from './format.ts';

interface ConnectionPanelProps {
  /** '' is all, undefined: closed. */
  readonly cluster: string | undefined;
  readonly clusters: readonly string[];
  /** How many there are in all. */
  readonly open: number | undefined;
  readonly onCluster: (cluster: string | undefined) => void;
}

const POLL_MS = 2000;
const LIMIT = 100;

export function ConnectionPanel({
  cluster,
  clusters,
  open,
  onCluster,
}: ConnectionPanelProps): ComponentChild {
  const { connections, trouble, refresh } = useConnections(cluster);
  const [ending, setEnding] = useState<Connection | undefined>(undefined);
  const isOpen = cluster !== undefined;
  const section = useRef<HTMLElement>(null);
  // One cluster's are asked for from its row, further up.
  const reveal = cluster !== undefined && cluster !== '' && connections !== undefined;
  useEffect(() => {
    if (reveal) section.current?.scrollIntoView({ block: 'start' });
  }, [reveal, cluster]);
  return h(
    'section',
    { ref: section, class: 'panel connections', 'aria-labelledby': 'connections-title' },
    h(
      'div',
      { class: 'panel-head' },
      h(
        'h2',
        { id: 'connections-title' },
        h(
          'button',
          {
            type: 'button',
            class: 'name',
            'aria-expanded': isOpen,
            onClick: () => onCluster(isOpen ? undefined : ''),
          },
          h('span', { class: 'chevron', 'aria-hidden': 'true' }),
          'Open connections ',
          open !== undefined && h('small', null, formatCount(open)),
        ),
      ),
      isOpen &&
        h(
          'select',
          {
            'aria-label': 'Whose connections',
            value: cluster,
            onChange: (event: TargetedEvent<HTMLSelectElement>) => onCluster(event.currentTarget.value),
          },
          h('option', { value: '' }, 'All clusters'),
          clusters.map(name => h('option', { key: name, value: name }, name)),
        ),
    ),
    isOpen && trouble !== undefined && h('p', { class: 'empty', role: 'alert' }, trouble),
    isOpen &&
      connections !== undefined &&
      (connections.length === 0
        ? h('p', { class: 'empty' }, 'None is open')
        : h(ConnectionTable, { connections, onEnd: setEnding })),
    isOpen && connections?.length === LIMIT && h('p', { class: 'empty' }, `The first ${LIMIT} are shown`),
    ending !== undefined &&
      h(EndDialog, {
        connection: ending,
        onClose: () => {
          setEnding(undefined);
          refresh();
        },
      }),
  );
}

/** Asked again every two seconds, while somebody looks. */
function useConnections(cluster: string | undefined): {
  connections: readonly Connection[] | undefined;
  trouble: string | undefined;
  refresh: () => void;
} {
  const [connections, setConnections] = useState<readonly Connection[] | undefined>(undefined);
  const [trouble, setTrouble] = useState<string | undefined>(undefined);
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    if (cluster === undefined) return;
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const poll = async () => {
      try {
        const answer = document.hidden ? undefined : await askConnections(cluster, LIMIT);
        if (over) return;
        if (answer !== undefined) setConnections(answer);
        setTrouble(undefined);
      } catch (error) {
        if (over) return;
        setTrouble(
          error instanceof AnswerError && error.status === 404
            ? 'This gateway does not tell its open connections'
            : 'The open connections cannot be asked for now',
        );
      }
      timer = setTimeout(() => void poll(), POLL_MS);
    };
    void poll();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [cluster, asked]);
  // Those of another cluster go at once; the same list stays until the new one is here.
  useEffect(() => () => setConnections(undefined), [cluster]);
  return { connections, trouble, refresh: () => setAsked(times => times + 1) };
}

interface ConnectionTableProps {
  readonly connections: readonly Connection[];
  readonly onEnd: (connection: Connection) => void;
}

function ConnectionTable({ connections, onEnd }: ConnectionTableProps): ComponentChild {
  const columns = ['Client', 'Host', 'Cluster', 'Backend', 'In', 'Out', 'Open for', ''];
  return h(
    'table',
    { class: 'list', role: 'table' },
    h('caption', { class: 'unseen' }, 'Open connections'),
    h(
      'thead',
      { role: 'rowgroup' },
      h(
        'tr',
        { role: 'row' },
        columns.map(name =>
          h(
            'th',
            { key: name, scope: 'col', role: 'columnheader' },
            name || h('span', { class: 'unseen' }, 'End'),
          ),
        ),
      ),
    ),
    h(
      'tbody',
      { role: 'rowgroup' },
      connections.map(connection => {
        const { id, client, protocol, host, cluster, route, backend, in: bytesIn, out, ms } = connection;
        return h(
          'tr',
          { key: id, role: 'row' },
          cell('Client', h('code', null, client ?? '–')),
          cell('Host', [
            h('code', null, h('bdi', null, host ?? '–')),
            protocol !== null && h('small', null, protocol),
          ]),
          cell('Cluster', [cluster ?? '–', route !== null && h('small', null, route)]),
          cell('Backend', h('code', null, backend ?? '–')),
          cell('In', formatBytes(bytesIn), 'number'),
          cell('Out', formatBytes(out), 'number'),
          cell('Open for', formatDuration(ms / 1000), 'number'),
          cell(
            '',
            h(
              'button',
              {
                type: 'button',
                class: 'end',
                'aria-label': `End the connection of ${client ?? 'this client'}`,
                onClick: () => onEnd(connection),
              },
              'End',
            ),
            'number',
          ),
        );
      }),
    ),
  );
}

function EndDialog({
  connection,
  onClose,
}: {
  readonly connection: Connection;
  readonly onClose: () => void;
}): ComponentChild {
  const dialog = useRef<HTMLDialogElement>(null);
  const [trouble, setTrouble] = useState<string | undefined>(undefined);
  useEffect(() => dialog.current?.showModal(), []);
  const { id, client, host, cluster } = connection;
  const end = async () => {
    try {
      await endConnection(id);
      dialog.current?.close();
    } catch (error) {
      setTrouble(troubleOf(error));
    }
  };
  return h(
    'dialog',
    { ref: dialog, 'aria-labelledby': 'end-title', onClose },
    h('h2', { id: 'end-title' }, 'End this connection?'),
    h(
      'dl',
      null,
      h('dt', null, 'Client'),
      h('dd', null, h('code', null, client ?? '–')),
      h('dt', null, 'Host'),
      h('dd', null, h('code', null, h('bdi', null, host ?? '–'))),
      h('dt', null, 'Cluster'),
      h('dd', null, cluster ?? '–'),
    ),
    h('p', null, 'Both sides see a reset (reason revoked). The client may connect again at once.'),
    trouble !== undefined && h('p', { class: 'trouble', role: 'alert' }, trouble),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', class: 'quiet', onClick: () => dialog.current?.close() }, 'Keep it'),
      h('button', { type: 'button', class: 'danger', onClick: () => void end() }, 'End it'),
    ),
  );
}

function troubleOf(error: unknown): string {
  if (!(error instanceof AnswerError)) return 'The gateway cannot be reached';
  if (error.status === 403) return 'Your user may look, but not end connections: that takes role admin';
  return error.status === 404 ? 'It is not open any more' : `It could not be ended: ${error.message}`;
}

function cell(label: string, content: ComponentChildren, more = ''): ComponentChild {
  return h('td', { role: 'cell', class: more, 'data-label': label }, content);
}
