// A large file in a fraction of the time: nearly all of it is clusters, which rarely need a position. Each cluster is read
// by itself (read-plain-block.ts), the rest of the file as always. Gives exactly what reading with positions gives, or
// undefined wherever the file has a mistake or is not certain to be understood.

import type { Cluster } from '../cluster/cluster.ts';
import { type AcceptedConfig, acceptConfig } from './accept-config.ts';
import { claimsOfCluster } from './claims-of-cluster.ts';
import { cluster as clusterSchema } from './cluster-schema.ts';
import { crossCheck } from './cross-check.ts';
import { isRecord } from './is-record.ts';
import { KnownClusters } from './known-clusters.ts';
import { withoutMark } from './read-document.ts';
import { readPlainBlock } from './read-plain-block.ts';
import { schema, toConfig } from './schema.ts';
import { type SplitClusters, splitClusters } from './split-clusters.ts';
import { type PlaceOf, readYaml, type YamlText } from './yaml-text.ts';

/** `known`: clusters of an earlier version of the file. */
export function readQuickly(marked: string, known = new KnownClusters()): AcceptedConfig | undefined {
  const split = splitClusters(withoutMark(marked));
  if (split === undefined) return undefined;
  const rest = readRest(split);
  if (rest === undefined) return undefined;
  const top = schema.safeParse({ ...rest.data, clusters: [] });
  if (!top.success) return undefined;
  const { blocks, indent } = split;
  const texts = blocks.map(block => block.text);
  const clusters = known.take(texts, text => readCluster(text, indent));
  if (clusters === undefined) return undefined;
  if (hasConflict({ ...rest.data, clusters: clusters.map(claimsOfCluster) })) return undefined;
  return acceptConfig(toConfig({ ...top.data, clusters: [...clusters] }), placesOf(split, rest.yaml));
}

function readCluster(text: string, indent: number): Cluster | undefined {
  const data = readPlainBlock(text, indent);
  return data === undefined ? undefined : clusterSchema.safeParse(data).data;
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
