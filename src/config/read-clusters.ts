// A file of the directory source: only `clusters:`, as in causeway.yaml. Pure, and never throws.

import type { Cluster } from '../cluster/cluster.ts';
import { checkClaims } from './claims.ts';
import { clusters } from './cluster-schema.ts';
import { map } from './fields.ts';
import type { Mistake } from './mistake.ts';
import { readDocument } from './read-document.ts';

export type ReadClusters =
  | { readonly ok: true; readonly clusters: readonly Cluster[] }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

const kind = {
  schema: map({ clusters }),
  empty: 'the file is empty: it needs a list of clusters, such as  clusters: []',
  check: checkClaims,
};

/** `file` is the file's name in messages. Mistakes are in the order of the file. */
export function readClusters(text: string, file: string): ReadClusters {
  const read = readDocument(text, file, kind);
  return read.ok ? { ok: true, clusters: read.value.clusters } : read;
}
