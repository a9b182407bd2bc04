// Causeway as a user starts it, with everything on: limits that are counted but not reached, counters, and a log
// of refusals.

import { rename, writeFile } from 'node:fs/promises';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { pin } from '../pinning.ts';
import { processTree } from '../process-usage.ts';
import { backendKinds, type Routes, routeEntries } from '../routes.ts';
import type { Peer } from './peer.ts';

/** Many clusters, rather than one with all names. */
const HOSTS_PER_CLUSTER = 1000;

export function causeway(engine: string): Peer {
  return {
    id: 'causeway',
    label: 'Causeway',
    async start({ routes, workers, cores }) {
      const gateway = await startCauseway({
        config: renderCauseway(routes),
        args: ['--engine', engine, '--workers', String(workers)],
      });
      await pin(gateway.program.pid, cores);
      const added = [...routes.added];
      return {
        port: () => gateway.port,
        processes: () => processTree(gateway.program.pid),
        engine: String(gateway.lines().find(({ msg }) => msg === 'ready')?.engine),
        async addHost(host) {
          added.push(host);
          const next = `${gateway.file}.next`;
          await writeFile(next, renderCauseway({ ...routes, added }));
          const asked = process.hrtime.bigint();
          await rename(next, gateway.file);
          return asked;
        },
        applySeconds: () => gateway.metric('causeway_table_apply_seconds_sum'),
        [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
      };
    },
  };
}

export function renderCauseway(routes: Routes): string {
  const lines = [
    'listen: ["127.0.0.1:0"]',
    'admin: { on: "127.0.0.1:0" }',
    'limits: { perSource: 1000000, pending: 100000 }',
    'log: { connections: refused }',
    'clusters:',
  ];
  for (const kind of backendKinds) {
    const hosts = [...routeEntries(routes)].filter(([, to]) => to === kind).map(([host]) => host);
    const perCluster = routes.smallClusters === true ? 2 : HOSTS_PER_CLUSTER;
    for (let from = 0; from < hosts.length; from += perCluster) {
      const name = `${kind}-${from / perCluster}`;
      const some = hosts.slice(from, from + perCluster);
      const port = routes.ports[kind];
      if (routes.smallClusters === true) lines.push(...smallCluster(name, port, some));
      else lines.push(...cluster(name, port, some, kind === 'web'));
    }
  }
  return `${lines.join('\n')}\n`;
}

function cluster(name: string, port: number, hosts: readonly string[], isWeb: boolean): string[] {
  return [
    `  - name: ${name}`,
    '    limits: { connections: 1000000, perSource: 1000000, newPerSecond: 10000000 }',
    ...(isWeb
      ? ['    apps:', '      http:', ...pool(port, '        ')]
      : ['    api:', ...pool(port, '      ')]),
    '      hosts:',
    ...hosts.map(host => `        - ${host}`),
  ];
}

function smallCluster(name: string, port: number, [api, konnectivity]: readonly string[]): string[] {
  const route = (kind: string, host: string) => [
    `    ${kind}:`,
    `      hosts: [${host}]`,
    ...pool(port, '      '),
  ];
  return [
    `  - name: ${name}`,
    ...route('api', api),
    ...(konnectivity === undefined ? [] : route('konnectivity', konnectivity)),
  ];
}

function pool(port: number, indent: string): string[] {
  return [`${indent}backends: ["127.0.0.1:${port}"]`, `${indent}health: { check: none }`];
}
