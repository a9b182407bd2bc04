// Where a route stands in causeway.yaml, for messages about it.

/** The path of a route of this kind, below its cluster. */
export function pathOfKind(kind: string): readonly string[] {
  if (kind === 'apps-https') return ['apps', 'https'];
  if (kind === 'apps-http') return ['apps', 'http'];
  return kind === 'api' || kind === 'konnectivity' ? [kind] : ['routes', kind];
}
