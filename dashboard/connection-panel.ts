// The open connections of all clusters or of one, fetched only while the panel is open. An admin may end one, after a
// confirmation; the gateway's answer shows whether this user is an admin.

import { type ComponentChild, type ComponentChildren, h, type TargetedEvent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { AnswerError, type Connection, endConnection, fetchConnections } from './api.ts';
import { formatBytes, formatCount, formatDuration } from './format.ts';

interface ConnectionPanelProps {
  /** '' lists all, undefined closes the panel. */
  readonly cluster: string | undefined;
  readonly clusters: readonly string[];
  /** Number of open connections of the whole gateway. */
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
  const { connections, error, refresh } = useConnections(cluster);
  const [ending, setEnding] = useState<Connection | undefined>(undefined);
  const isOpen = cluster !== undefined;
  const section = useRef<HTMLElement>(null);
  // The list of one cluster is opened from its row, further up.
  const isRequested = cluster !== undefined && cluster !== '' && connections !== undefined;
  useEffect(() => {
    if (isRequested) section.current?.scrollIntoView({ block: 'start' });
  }, [isRequested, cluster]);
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
            'aria-label': 'Connections of',
            value: cluster,
            onChange: (event: TargetedEvent<HTMLSelectElement>) => onCluster(event.currentTarget.value),
          },
          h('option', { value: '' }, 'All clusters'),
          clusters.map(name => h('option', { key: name, value: name }, name)),
        ),
    ),
    isOpen && error !== undefined && h('p', { class: 'empty', role: 'alert' }, error),
    isOpen &&
      connections !== undefined &&
      (connections.length === 0
        ? h('p', { class: 'empty' }, 'No open connections')
        : h(ConnectionTable, { connections, onEnd: setEnding })),
    isOpen && connections?.length === LIMIT && h('p', { class: 'empty' }, `The newest ${LIMIT} are shown`),
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

/** Fetched every two seconds while the page is visible. */
function useConnections(cluster: string | undefined): {
  connections: readonly Connection[] | undefined;
  error: string | undefined;
  refresh: () => void;
} {
  const [connections, setConnections] = useState<readonly Connection[] | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  const [refreshes, setRefreshes] = useState(0);
  useEffect(() => {
    if (cluster === undefined) return;
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const poll = async () => {
      try {
        const answer = document.hidden ? undefined : await fetchConnections(cluster, LIMIT);
        if (over) return;
        if (answer !== undefined) setConnections(answer);
        setError(undefined);
      } catch (cause) {
        if (over) return;
        setError(
          cause instanceof AnswerError && cause.status === 404
            ? 'This gateway does not list its open connections'
            : 'The list of open connections is not available now',
        );
      }
      timer = setTimeout(() => void poll(), POLL_MS);
    };
    void poll();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [cluster, refreshes]);
  // The list of another cluster is cleared at once; the same list stays until the new one has arrived.
  useEffect(() => () => setConnections(undefined), [cluster]);
  return { connections, error, refresh: () => setRefreshes(count => count + 1) };
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
          cell('Client', h('code', { class: 'address', title: client ?? '' }, client ?? '–')),
          cell('Host', [
            h('code', null, h('bdi', null, host ?? '–')),
            protocol !== null && h('small', null, protocol),
          ]),
          cell('Cluster', [cluster ?? '–', route !== null && h('small', null, route)]),
          cell('Backend', h('code', { class: 'address', title: backend ?? '' }, backend ?? '–')),
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
  const [error, setError] = useState<string | undefined>(undefined);
  useEffect(() => dialog.current?.showModal(), []);
  const { id, client, host, cluster } = connection;
  const end = async () => {
    try {
      await endConnection(id);
      dialog.current?.close();
    } catch (cause) {
      setError(errorText(cause));
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
      h('dd', null, h('code', { class: 'address', title: client ?? '' }, client ?? '–')),
      h('dt', null, 'Host'),
      h('dd', null, h('code', null, h('bdi', null, host ?? '–'))),
      h('dt', null, 'Cluster'),
      h('dd', null, cluster ?? '–'),
    ),
    h('p', null, 'Both sides receive a reset (reason revoked). The client may reconnect at once.'),
    error !== undefined && h('p', { class: 'error', role: 'alert' }, error),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', class: 'quiet', onClick: () => dialog.current?.close() }, 'Keep it'),
      h('button', { type: 'button', class: 'danger', onClick: () => void end() }, 'End it'),
    ),
  );
}

function errorText(error: unknown): string {
  if (!(error instanceof AnswerError)) return 'The gateway cannot be reached';
  if (error.status === 403) return 'Your user may not end connections: that takes role admin';
  return error.status === 404 ? 'The connection has already ended' : error.message;
}

function cell(label: string, content: ComponentChildren, more = ''): ComponentChild {
  return h('td', { role: 'cell', class: more, 'data-label': label }, content);
}
