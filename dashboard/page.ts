// The whole page. What a person has chosen on it is in its URL (page-state.ts).

import { type ComponentChild, h } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
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
import { usePageState } from './use-page-state.ts';

export function Page({ view }: { readonly view: View }): ComponentChild {
  const { status, clusters, unrouted, contact, notReady, refusals, changes } = view;
  const [state, choose] = usePageState();
  const { connections } = state;

  const loading = status === undefined;
  // Hundreds of rows: drawn when the clusters have been fetched again, not with every event.
  const clusterPanel = useMemo(
    () => h(ClusterPanel, { clusters, unrouted, loading, state, choose }),
    [clusters, unrouted, loading, state],
  );

  const banners = bannersOf(status, contact, notReady);
  const title = titleOf(view);
  useEffect(() => {
    document.title = title;
  }, [title]);
  const showCluster = (cluster: string) => choose({ filter: cluster, problemsOnly: false });

  return h(
    'div',
    { class: contact.lost === undefined ? 'page' : 'page stale' },
    h(Masthead, { view }),
    h(
      'main',
      null,
      h(BannerList, { banners }),
      h(Tiles, { view, onProblems: () => choose({ problemsOnly: true, filter: '' }) }),
      h(
        'div',
        { class: 'columns' },
        h(
          'div',
          { class: 'column' },
          clusterPanel,
          h(ConnectionPanel, {
            cluster: connections,
            clusters: clusters?.map(({ cluster }) => cluster.name) ?? [],
            open: status?.counts.connections,
            onCluster: cluster => choose({ connections: cluster }),
          }),
        ),
        h(
          'div',
          { class: 'column' },
          h(RefusalList, { refusals, onCluster: showCluster }),
          h(ReasonTable, { traffic: status?.traffic }),
          h(ChangeList, { changes, onCluster: showCluster }),
        ),
      ),
    ),
  );
}

/** The title of the browser's tab: the worst that there is. */
function titleOf({ status, clusters, contact }: View): string {
  if (contact.lost !== undefined) return 'unreachable · Causeway';
  const outages = clusters?.filter(({ outage }) => outage).length ?? 0;
  if (outages > 0) return `${outages} ${outages === 1 ? 'outage' : 'outages'} · Causeway`;
  const down = clusters?.reduce((sum, cluster) => sum + cluster.down, 0) ?? status?.health?.down ?? 0;
  return down > 0 ? `${down} down · Causeway` : 'Causeway';
}
