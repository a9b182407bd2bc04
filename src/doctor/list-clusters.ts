// The clusters of a file and of its sources, as `run` would serve them: every source is listed once, within a bounded
// time.

import { dirname } from 'node:path';
import type { Finding } from '../cluster/finding.ts';
import type { Config, SourceSettings } from '../config/config.ts';
import { makePlan } from '../controller/make-plan.ts';
import type { Clock } from '../kube/clock.ts';
import type { KubeServers } from '../kube/kube-servers.ts';
import { entersTenants, wantsNodes } from '../outputs/servers-of.ts';
import type { Plan } from '../plan/plan.ts';
import { openSource } from '../sources/open-source.ts';
import { type SourceFix, SourceSet, type SourceState } from '../sources/source-set.ts';
import type { Report } from './check.ts';

/** A source that has not listed by then is reported. */
const LISTED_MS = 15_000;
const POLL_MS = 25;
/** A watch reports its first objects one by one. */
const QUIET_MS = 100;
const NEVER = new AbortController().signal;

export interface ListedClusters {
  readonly plan: Plan;
  /** What --fix would add to the objects of clusters. */
  readonly fixes: readonly SourceFix[];
}

export interface ListOptions {
  readonly file: string;
  readonly config: Config;
  readonly servers: KubeServers;
  /** For sources that name no kubeconfig. */
  readonly kubeconfig?: string | undefined;
  readonly clock: Clock;
}

/** The settings with which sources are opened here: where they say nothing, --kubeconfig is their server. */
export function sourcesFrom({ sources }: Config, kubeconfig: string | undefined): readonly SourceSettings[] {
  return sources.map(source => {
    if (source.kind === 'directory') return source;
    const options = {
      ...source.options,
      // What would be added is asked for, and added only on demand.
      ...('fix' in source.options && { fix: true }),
      ...(kubeconfig !== undefined && source.options.kubeconfig === undefined && { kubeconfig }),
    };
    return { ...source, options } as SourceSettings;
  });
}

export async function listClusters(options: ListOptions, report: Report): Promise<ListedClusters> {
  const { config, servers, file, kubeconfig, clock } = options;
  const { outputs } = config;
  const settings = sourcesFrom(config, kubeconfig);
  let changedAt = clock.now();
  await using set = new SourceSet({
    open: (one, changed) =>
      openSource(
        one,
        {
          name: one.name,
          folder: dirname(file),
          kubeApi: servers.api.bind(servers),
          wantsReconcilerNone: entersTenants(outputs),
          wantsNodes: wantsNodes(outputs),
        },
        changed,
      ),
    changed: () => (changedAt = clock.now()),
  });
  set.use(settings);
  const deadline = clock.now() + LISTED_MS;
  const isWaiting = () => set.states.some(({ synced, error }) => !synced && error === null);
  while (settings.length > 0 && clock.now() < deadline && (isWaiting() || clock.now() - changedAt < QUIET_MS))
    await clock.wait(POLL_MS, NEVER);
  for (const state of set.states) checkSource(state, report);
  const plan = makePlan(config, set.observe(), []);
  return { plan, fixes: set.fixes(plan.clusters) };
}

function checkSource({ name, synced, error }: SourceState, report: Report): void {
  if (error !== null) {
    const fix =
      'Look at the kubeconfig of the source and its rights (causeway render rbac); give --kubeconfig F where the file means the pod itself';
    report.fail('config', 'SourceUnreadable', `Source '${name}' cannot be read: ${error}`, fix);
  } else if (!synced) {
    const text = `Source '${name}' has not been listed within ${LISTED_MS / 1000} s`;
    report.fail('config', 'SourceUnreadable', text, 'Look at the API server that it is in');
  }
}

/** Of no cluster that is served. */
export function generalFindings({ findings, clusters }: Plan): readonly Finding[] {
  const names = new Set(clusters.map(({ name }) => name));
  return findings.filter(({ cluster }) => cluster === undefined || !names.has(cluster));
}
