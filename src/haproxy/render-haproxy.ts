// `causeway render haproxy`: a file as a configuration that a person could have written for HAProxy, and that needs
// nothing besides. What HAProxy cannot do is in unsupported.ts.

import type { Cluster } from '../cluster/cluster.ts';
import type { Config } from '../config/config.ts';
import { backendSection, isHttpRoute } from './backend-section.ts';
import { frontendSections } from './frontend-sections.ts';
import { type HaproxyVersion, readsAnyTlv } from './haproxy-version.ts';
import { limitSections } from './limit-sections.ts';
import { REFUSED } from './routing-lines.ts';
import { printSections, type Section } from './section.ts';
import { defaultsSection, globalSection, resolversSections } from './settings-sections.ts';

/** Expects a config without what unsupported.ts calls a mistake. */
export function renderHaproxy(config: Config, file: string, version: HaproxyVersion): string {
  const sections = [
    globalSection(config),
    defaultsSection(config),
    ...resolversSections(config),
    ...config.listen.flatMap(listener => frontendSections(config, listener, version)),
    ...config.clusters.flatMap(cluster => clusterSections(config, cluster)),
    ...limitSections(config),
    ...refusalSections(config),
  ];
  return `${introduction(config, file, version)}\n${printSections(sections)}`;
}

function introduction({ listen }: Config, file: string, version: HaproxyVersion): string {
  const readsTlv = listen.some(({ agents }) => agents.length > 0) && readsAnyTlv(version);
  return [
    `# ${file.replace(/^.*\//, '')} for HAProxy ${readsTlv ? '2.9' : '2.6'} or newer, written by causeway render haproxy.`,
    '# Check it with: haproxy -c -f FILE',
    '',
  ].join('\n');
}

function clusterSections({ timeouts }: Config, cluster: Cluster): readonly Section[] {
  return cluster.routes.map((route, index) => {
    const section = backendSection(cluster, route, timeouts.stalledMs);
    const id = cluster.id === undefined ? '' : `, id ${cluster.id}`;
    return index === 0 ? { comments: [`Cluster ${cluster.name}${id}`], ...section } : section;
  });
}

function refusalSections({ clusters }: Config): readonly Section[] {
  const hasHttp = clusters.some(({ routes }) => routes.some(isHttpRoute));
  const refused = {
    comments: ['What nobody claims.'],
    head: `backend ${REFUSED}`,
    lines: ['tcp-request content reject'],
  };
  if (!hasHttp) return [refused];
  const answer = 'status 421 content-type text/plain string "No cluster has this host"';
  return [
    refused,
    { head: `backend ${REFUSED}_http`, lines: ['mode http', `http-request return ${answer}`] },
  ];
}
