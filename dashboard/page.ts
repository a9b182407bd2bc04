// The page as a whole, and what a person has chosen on it: filter, order, which cluster's connections.

import { type ComponentChild, h } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { BannerList } from './banner-list.ts';
import { bannersOf } from './banners.ts';
import { ChangeList } from './change-list.ts';
import { ClusterPanel } from './cluster-panel.ts';
import { ConnectionPanel } from './connection-panel.ts';
import type { View } from './gateway-watch.ts';
import { Masthead } from './masthead.ts';
import { ReasonTable } from './reason-table.ts';
import { RefusalList } from './refusal-list.ts';
import { Tiles } from './tiles.ts';

export function Page({ view }: { readonly view: View }): ComponentChild {
  const { status, clusters, contact, notReady, refusals, changes } = view;
  const [filter, setFilter] = useState('');
  const [problemsOnly, setProblemsOnly] = useState(false);
  /** Whose open connections are listed; '' is everyone's, undefined: the panel is closed. */
  const [connectionsOf, setConnectionsOf] = useState<string | undefined>(undefined);

  const loading = status === undefined;
  // Hundreds of rows: drawn when the clusters are told anew, not with every event.
  const clusterPanel = useMemo(
    () =>
      h(ClusterPanel, {
        clusters,
        loading,
        filter,
        problemsOnly,
        onFilter: setFilter,
        onProblemsOnly: setProblemsOnly,
        onConnections: setConnectionsOf,
      }),
    [clusters, loading, filter, problemsOnly],
  );

  const banners = bannersOf(status, contact, notReady);
  const down = clusters?.reduce((sum, cluster) => sum + cluster.down, 0) ?? status?.health?.down ?? 0;
  const title =
    contact.lost !== undefined ? 'no contact · Causeway' : down > 0 ? `${down} down · Causeway` : 'Causeway';
  useEffect(() => {
    document.title = title;
  }, [title]);

  return h(
    'div',
    { class: contact.lost === undefined ? 'page' : 'page stale' },
    h(Masthead, { view }),
    h(
      'main',
      null,
      h(BannerList, { banners }),
      h(Tiles, { view, onProblems: () => setProblemsOnly(true) }),
      h(
        'div',
        { class: 'columns' },
        h(
          'div',
          { class: 'column' },
          clusterPanel,
          h(ConnectionPanel, {
            cluster: connectionsOf,
            clusters: clusters?.map(({ cluster }) => cluster.name) ?? [],
            open: status?.counts.connections,
            onCluster: setConnectionsOf,
          }),
        ),
        h(
          'div',
          { class: 'column' },
          h(RefusalList, { refusals, onCluster: setFilter }),
          h(ReasonTable, { reasons: status?.traffic?.reasons }),
          h(ChangeList, { changes, onCluster: setFilter }),
        ),
      ),
    ),
  );
}
