// Most tests count every connection to a backend, and their backends do not speak TLS, so health checks would
// only disturb. This turns them off in a file that does not set them.

import { isMap, isSeq, parseDocument, type YAMLMap } from 'yaml';
import { readConfig } from '../src/config/read-config.ts';

/** An invalid file stays as it is, because its errors have line and column. */
export function withoutHealthChecks(text: string): string {
  if (/\bhealth:/.test(text) || !readConfig(text, 'causeway.yaml').ok) return text;
  const document = parseDocument(text);
  const none = () => document.createNode({ check: 'none' }, { flow: true });
  const switchOff = (owner: YAMLMap, key: unknown) => {
    const route = owner.get(key, true) as unknown;
    if (isMap(route)) route.set('health', none());
    else if (isSeq(route)) owner.set(key, document.createNode({ backends: route, health: none() }));
  };
  const clusters = document.get('clusters');
  for (const cluster of isSeq(clusters) ? clusters.items : []) {
    if (!isMap(cluster)) continue;
    for (const kind of ['api', 'konnectivity']) switchOff(cluster, kind);
    const apps = cluster.get('apps');
    if (isMap(apps)) for (const kind of ['https', 'http']) switchOff(apps, kind);
    const own = cluster.get('routes');
    if (isMap(own)) for (const { key } of own.items) switchOff(own, key);
  }
  return document.toString({ lineWidth: 0 });
}
