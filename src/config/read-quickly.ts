// A large file in a fraction of the time: nearly all of it is clusters, which rarely need a position. Each cluster is read
// by itself (read-plain-block.ts), the rest of the file as always. Gives exactly what reading with positions gives, or
// undefined wherever the file has a mistake or is not certain to be understood.

import type { Cluster } from '../cluster/cluster.ts';
import { type AcceptedConfig, acceptConfig } from './accept-config.ts';
import { cluster as clusterSchema } from './cluster-schema.ts';
import { crossCheck } from './cross-check.ts';
import { isRecord } from './is-record.ts';
import { KnownClusters } from './known-clusters.ts';
import { readPlainBlock } from './read-plain-block.ts';
import { schema, toConfig } from './schema.ts';
import { blockOf, countLines, restOf, type SplitClusters, splitClusters } from './split-clusters.ts';
import { type PlaceOf, readYaml, type YamlText } from './yaml-text.ts';

/** U+FEFF, which Windows editors put first. */
const MARK = Buffer.from('\ufeff');

/** `marked` is in UTF-8; `known` are the clusters of an earlier version of the file. */
export function readQuickly(marked: Buffer, known = new KnownClusters()): AcceptedConfig | undefined {
  const isMarked = marked.subarray(0, MARK.length).equals(MARK);
  const split = splitClusters(isMarked ? marked.subarray(MARK.length) : marked, known.split);
  if (split === undefined) return undefined;
  const rest = readRest(split);
  if (rest === undefined) return undefined;
  const top = schema.safeParse({ ...rest.data, clusters: [] });
  if (!top.success) return undefined;
  const taken = known.take(split, text => readCluster(text, split.indent));
  if (taken === undefined || taken.hasConflict(top.data.tunnel?.hosts ?? [])) return undefined;
  const { clusters } = taken;
  const lacksIdentity = rest.data.identity === undefined && clusters.some(one => one.identityRequired);
  if (lacksIdentity || hasConflict({ ...rest.data, clusters: [] })) return undefined;
  taken.commit();
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
  const text = restOf(split);
  const yaml = readYaml(text, '');
  const { data, mistakes, placeOf } = yaml;
  if (mistakes.length > 0 || !isRecord(data) || data.clusters !== null) return undefined;
  // The line might be part of a quoted text, or of a map in { }.
  const key = placeOf(['clusters'], 'key');
  const top = placeOf([], 'value');
  const isFlow = text.split('\n', top.line)[top.line - 1][top.column - 1] === '{';
  const keyLine = countLines(split.bytes, 0, split.keyEnd);
  return key.line === keyLine && key.column === 1 && !isFlow ? { data, yaml } : undefined;
}

/** Between keys of the rest of the file. */
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
function placesOf(split: SplitClusters, rest: YamlText): PlaceOf {
  const looked = new Map<number, PlaceOf>();
  const keyLine = countLines(split.bytes, 0, split.keyEnd);
  // Counted only if somebody asks for a position behind them.
  let counted: Int32Array | undefined;
  const linesBefore = (index: number) => {
    counted ??= countEach(split, keyLine);
    return counted[index];
  };
  return (path, at) => {
    const [key, index, ...inside] = path;
    if (key !== 'clusters' || typeof index !== 'number') {
      const { line, column } = rest.placeOf(path, at);
      return { line: line > keyLine ? line + linesBefore(split.starts.length - 1) - keyLine : line, column };
    }
    const placeOf = looked.get(index) ?? readYaml(blockOf(split, index), '').placeOf;
    looked.set(index, placeOf);
    const { line, column } = placeOf([0, ...inside], at);
    return { line: linesBefore(index) + line, column };
  };
}

/** The lines before each cluster, and before what follows them. */
function countEach({ bytes, starts, keyEnd }: SplitClusters, keyLine: number): Int32Array {
  let [at, line] = [keyEnd, keyLine];
  return starts.map(start => {
    line += countLines(bytes, at, start);
    at = start;
    return line;
  });
}
