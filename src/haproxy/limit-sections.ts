// Limits as HAProxy counts them: stick tables, one entry for each cluster and, where sources are limited, one table for
// each cluster with an entry for each source. The rules are in the backends: only there is the cluster known.

import type { Cluster } from '../cluster/cluster.ts';
import type { Config } from '../config/config.ts';
import { refuse } from './refuse.ts';
import type { Section } from './section.ts';

/** Has an entry for each cluster with limits. */
const CLUSTERS_TABLE = 'limits_clusters';
/** Has an entry for each source of the whole gateway. */
export const SOURCES_TABLE = 'limits_sources';

/** Longer than any connection rate is measured; entries of open connections never expire. */
const EXPIRE = 'expire 1m';

function clusterTable({ name }: Pick<Cluster, 'name'>): string {
  return `limits_${name}_sources`;
}

export function limitSections({ clusters, limits }: Pick<Config, 'clusters' | 'limits'>): readonly Section[] {
  const limited = clusters.filter(
    ({ limits }) => limits.connections !== undefined || limits.newPerSecond !== undefined,
  );
  const perSource = clusters.filter(({ limits }) => limits.perSource !== undefined);
  return [
    ...(limits.perSource === undefined
      ? []
      : [table(SOURCES_TABLE, 'type ipv6 size 1m', 'conn_cur', 'Open connections of each source.')]),
    ...(limited.length === 0
      ? []
      : [
          table(
            CLUSTERS_TABLE,
            'type string len 254 size 100k',
            'conn_cur,conn_rate(1s)',
            'Open connections, and new ones per second, of each cluster.',
          ),
        ]),
    ...perSource.map(cluster =>
      table(
        clusterTable(cluster),
        'type ipv6 size 100k',
        'conn_cur',
        `Open connections of each source to ${cluster.name}.`,
      ),
    ),
  ];
}

/** The rules of one cluster, in each of its backends. */
export function limitLines(cluster: Cluster, isHttp: boolean): readonly string[] {
  const { connections, perSource, newPerSecond } = cluster.limits;
  const verb = isHttp ? 'http-request' : 'tcp-request content';
  const over = (condition: string) => refuse(isHttp, 503, ` if { ${condition} }`);
  return [
    ...(connections === undefined && newPerSecond === undefined
      ? []
      : [`${verb} track-sc1 str(${cluster.name}) table ${CLUSTERS_TABLE}`]),
    ...(connections === undefined ? [] : [over(`sc1_conn_cur gt ${connections}`)]),
    ...(newPerSecond === undefined ? [] : [over(`sc1_conn_rate gt ${newPerSecond}`)]),
    ...(perSource === undefined
      ? []
      : [`${verb} track-sc2 src table ${clusterTable(cluster)}`, over(`sc2_conn_cur gt ${perSource}`)]),
  ];
}

function table(name: string, type: string, store: string, comment: string): Section {
  return {
    comments: [comment],
    head: `backend ${name}`,
    lines: [`stick-table ${type} ${EXPIRE} store ${store}`],
  };
}
