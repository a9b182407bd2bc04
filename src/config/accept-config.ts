// A valid file → what readConfig() gives: the configuration, its warnings, and the positions that others need later.

import type { Cluster } from '../cluster/cluster.ts';
import type { Config } from './config.ts';
import { byPlace, formatPath, type Mistake, type Path, type Positions } from './mistake.ts';
import { pathOfKind } from './path-of-kind.ts';
import { collect } from './read-document.ts';
import { warn } from './warnings.ts';
import type { PlaceOf } from './yaml-text.ts';

export interface AcceptedConfig {
  readonly ok: true;
  readonly config: Config;
  readonly warnings: readonly Mistake[];
  /** Positions of keys whose values can fail later: listen addresses, files, and what an engine cannot do. */
  readonly positions: Positions;
}

export function acceptConfig(config: Config, placeOf: PlaceOf): AcceptedConfig {
  const warnings = collect(placeOf, []);
  warn(config, warnings.report);
  const positions = new Map(
    [...canFailLater(config), ...dependOnEngine(config)].map(
      path => [formatPath(path), placeOf(path, 'value')] as const,
    ),
  );
  return { ok: true, config, warnings: warnings.found.toSorted(byPlace), positions };
}

function canFailLater({ admin, identity, limits, listen, sources, tunnel }: Config): Path[] {
  const pair = (path: Path): Path[] => [
    [...path, 'certFile'],
    [...path, 'keyFile'],
  ];
  return [
    ...listen.map((_, i) => ['listen', i]),
    ...(limits.connections === undefined ? [] : [['limits', 'connections']]),
    ...(identity === undefined ? [] : [['identity', 'secretFile']]),
    ...(admin.tls === undefined ? [] : pair(['admin', 'tls'])),
    ...sources.flatMap(({ kind, options }, i) =>
      'kubeconfig' in options && options.kubeconfig !== undefined ? [['sources', i, kind, 'kubeconfig']] : [],
    ),
    ...(tunnel?.on === undefined ? [] : [['tunnel', 'on']]),
    ...(tunnel?.certificates.flatMap((_, i) => pair(['tunnel', 'certificates', i])) ?? []),
  ];
}

/** HAProxy cannot do everything: haproxy/unsupported.ts. */
function dependOnEngine({ clusters, engine, identity, limits, listen, sources, tunnel }: Config): Path[] {
  return [
    ...listen.flatMap(({ agents, balancers }, i) => [
      ...(balancers.length === 0 ? [] : [['listen', i, 'balancers']]),
      ...(agents.length === 0
        ? []
        : [
            ['listen', i, 'agents'],
            ['listen', i, 'idTlv'],
          ]),
    ]),
    ...(identity === undefined ? [] : [['identity']]),
    ...(tunnel === undefined ? [] : [['tunnel']]),
    ...(sources.length === 0 ? [] : [['sources']]),
    ...(engine === 'haproxy' ? [['engine']] : []),
    ...Object.keys(limits).map(key => ['limits', key]),
    ...clustersThatDepend(clusters),
  ];
}

/** One path for thousands of clusters, or none. */
function clustersThatDepend(clusters: readonly Cluster[]): Path[] {
  const paths: Path[] = [];
  for (let i = 0; i < clusters.length; i++) {
    const { identityRequired, routes } = clusters[i];
    if (identityRequired) paths.push(['clusters', i, 'identity']);
    for (const { connect, kind } of routes)
      if (connect.length > 0) paths.push(['clusters', i, ...pathOfKind(kind), 'connect']);
  }
  return paths;
}
