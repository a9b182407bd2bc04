// A large file in a fraction of the time: nearly all of it is clusters, which rarely need a position. Each cluster is read
// by itself (read-plain-block.ts), the rest of the file as always. Gives exactly what reading with positions gives, or
// undefined wherever the file has a mistake or is not certain to be understood.

import type { Cluster } from '../cluster/cluster.ts';
import { type AcceptedConfig, acceptConfig } from './accept-config.ts';
import { cluster as clusterSchema } from './cluster-schema.ts';
import { crossCheck } from './cross-check.ts';
import { isRecord } from './is-record.ts';
import { withoutMark } from './read-document.ts';
import { readPlainBlock } from './read-plain-block.ts';
import { schema, toConfig } from './schema.ts';
import { type ClusterBlock, type SplitClusters, splitClusters } from './split-clusters.ts';
import { type PlaceOf, readYaml, type YamlText } from './yaml-text.ts';

interface KnownCluster {
  /** Before validation, for cross-checks. */
  readonly data: unknown;
  readonly cluster: Cluster;
}

export function readQuickly(marked: string): AcceptedConfig | undefined {
  const split = splitClusters(withoutMark(marked));
  if (split === undefined) return undefined;
  const rest = readRest(split);
  if (rest === undefined) return undefined;
  const known: KnownCluster[] = [];
  for (const block of split.blocks) {
    const read = readBlock(block, split.indent);
    if (read === undefined) return undefined;
    known.push(read);
  }
  const top = schema.safeParse({ ...rest.data, clusters: [] });
  if (!top.success) return undefined;
  if (hasConflict({ ...rest.data, clusters: known.map(({ data }) => data) })) return undefined;
  const config = toConfig({ ...top.data, clusters: known.map(({ cluster }) => cluster) });
  return acceptConfig(config, placesOf(split, rest.yaml));
}

function readBlock({ text }: ClusterBlock, indent: number): KnownCluster | undefined {
  const data = readPlainBlock(text, indent);
  if (data === undefined) return undefined;
  const { success, data: cluster } = clusterSchema.safeParse(data);
  return success ? { data, cluster } : undefined;
}

/** The file without its clusters. It must be a block map in which the key has no other value. */
function readRest(
  split: SplitClusters,
): { readonly data: Record<string, unknown>; readonly yaml: YamlText } | undefined {
  const yaml = readYaml(split.rest, '');
  const { data, mistakes, placeOf } = yaml;
  if (mistakes.length > 0 || !isRecord(data) || data.clusters !== null) return undefined;
  // The line might be part of a quoted text, or of a map in { }.
  const key = placeOf(['clusters'], 'key');
  const top = placeOf([], 'value');
  const isFlow = split.rest.split('\n', top.line)[top.line - 1][top.column - 1] === '{';
  return key.line === split.keyLine && key.column === 1 && !isFlow ? { data, yaml } : undefined;
}

function hasConflict(data: Record<string, unknown>): boolean {
  let found = false;
  crossCheck(
    data,
    () => '',
    () => {
      found = true;
    },
  );
  return found;
}

/** Positions as in the whole file. That of something in a cluster takes a second look at this cluster. */
function placesOf({ blocks, keyLine, blockLines }: SplitClusters, rest: YamlText): PlaceOf {
  const looked = new Map<number, PlaceOf>();
  return (path, at) => {
    const [key, index, ...inside] = path;
    if (key !== 'clusters' || typeof index !== 'number') {
      const { line, column } = rest.placeOf(path, at);
      return { line: line > keyLine ? line + blockLines : line, column };
    }
    const { text, linesBefore } = blocks[index];
    const placeOf = looked.get(index) ?? readYaml(text, '').placeOf;
    looked.set(index, placeOf);
    const { line, column } = placeOf([0, ...inside], at);
    return { line: linesBefore + line, column };
  };
}
