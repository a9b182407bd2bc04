// Names of clusters and routes, as the file and objects in Kubernetes may give them.

import { knownKinds } from '../cluster/cluster.ts';
import { bad, either, good, type Reading } from './reading.ts';

export const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** Completes `must be …` in messages. */
export const DNS_LABEL_WORDS = 'a DNS label of up to 63 lower-case letters, digits and inner hyphens';

/** From Kubernetes: a label, or `<namespace>.<name>`. */
export function readClusterName(value: unknown): Reading<string> {
  const what = `${DNS_LABEL_WORDS}, or two of them with a dot between`;
  if (typeof value !== 'string') return bad(what, value);
  const labels = value.split('.', 3);
  return labels.length <= 2 && labels.every(label => DNS_LABEL.test(label)) ? good(value) : bad(what, value);
}

/** From Kubernetes: one of the known kinds, or a name of the user's own. */
export function readRouteKind(value: unknown): Reading<string> {
  const what = `${either(knownKinds)}, or a name of your own: ${DNS_LABEL_WORDS}`;
  // In the file `apps` stands for two kinds.
  if (value === 'apps') return bad('apps-https or apps-http', value);
  return typeof value === 'string' && DNS_LABEL.test(value) ? good(value) : bad(what, value);
}
