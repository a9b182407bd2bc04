// causeway.yaml → Config, or every mistake in it with its position: text → YAML → schema → cross-checks → warnings.
// Pure, and never throws; read-config-file.ts opens the file.

import type { Config } from './config.ts';
import { crossCheck } from './cross-check.ts';
import { byPlace, formatPath, type Mistake, type Path, type Positions } from './mistake.ts';
import { pathOfKind } from './path-of-kind.ts';
import { collect, readDocument } from './read-document.ts';
import { schema, toConfig } from './schema.ts';
import { warn } from './warnings.ts';

export { formatMistake, type Mistake } from './mistake.ts';

export type ReadConfig =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly warnings: readonly Mistake[];
      /** Positions of keys whose values can fail later: listen addresses, files, and what an engine cannot do. */
      readonly positions: Positions;
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

const EMPTY = 'the file is empty: it needs at least one address to listen on, such as  listen: [":6443"]';

/** `file` is the file's name in messages. Mistakes are in the order of the file. */
export function readConfig(text: string, file: string): ReadConfig {
  const read = readDocument(text, file, { schema, empty: EMPTY, check: crossCheck });
  if (!read.ok) return read;
  const { value, yaml } = read;
  const config = toConfig(value);
  const warnings = collect(yaml, []);
  warn(config, warnings.report);
  const positions = new Map(
    [...canFailLater(config), ...dependOnEngine(config)].map(
      path => [formatPath(path), yaml.placeOf(path, 'value')] as const,
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
    ...clusters.flatMap(({ identityRequired, routes }, i) => [
      ...(identityRequired ? [['clusters', i, 'identity']] : []),
      ...routes.flatMap(({ connect, kind }) =>
        connect.length === 0 ? [] : [['clusters', i, ...pathOfKind(kind), 'connect']],
      ),
    ]),
  ];
}
