// The part of the table that an HTTP thread needs: where its own routes lead, and only the names of all others, which tell
// it that a host is served over TLS. A large estate takes half the memory there.

import type { ClusterEntry } from './table.ts';

export function httpEntries(entries: readonly ClusterEntry[]): readonly ClusterEntry[] {
  return entries.map(entry => ({
    ...entry,
    routes: entry.routes.map(route => (route.kind === 'apps-http' ? route : { ...route, backends: [] })),
  }));
}
