// What the admin API of a running gateway says about itself: an extra, used where it can be asked without a login.

import type { ClusterAnswer } from '../admin/clusters.ts';
import type { Status } from '../admin/status.ts';
import type { Config } from '../config/config.ts';

export interface RunningGateway {
  readonly listeners: Status['listeners'];
  readonly config: Status['config'];
  readonly clusters: ReadonlyMap<string, ClusterAnswer>;
}

/** Rejects where there is no answer. */
export type AskAdmin = (path: string) => Promise<unknown>;

/** Undefined where nobody answers, or another gateway does. */
export async function askRunning(
  { listen }: Pick<Config, 'listen'>,
  askAdmin: AskAdmin | undefined,
): Promise<RunningGateway | undefined> {
  if (askAdmin === undefined) return undefined;
  try {
    const status = (await askAdmin('/api/v1/status')) as Status;
    const served = new Set(status.listeners.map(({ on }) => on));
    // Another gateway of this machine may have the default port. One listener is enough: an edit that adds another may
    // have been refused.
    if (!listen.some(({ on }) => served.has(on))) return undefined;
    const clusters = (await askAdmin('/api/v1/clusters')) as readonly ClusterAnswer[];
    if (!Array.isArray(clusters)) return undefined;
    const { listeners, config } = status;
    return { listeners, config, clusters: new Map(clusters.map(cluster => [cluster.name, cluster])) };
  } catch {
    return undefined;
  }
}

/** Why a backend is down, as the gateway's health checks see it; undefined where it is up or not known. */
export function downAs(
  running: RunningGateway | undefined,
  cluster: string,
  kind: string,
): readonly { readonly address: string; readonly why: string; readonly isOnly: boolean }[] {
  const backends = running?.clusters.get(cluster)?.routes.find(route => route.kind === kind)?.backends ?? [];
  const down = backends.filter(({ up }) => up === false);
  return down.map(({ address, why = 'down' }) => ({ address, why, isOnly: down.length === backends.length }));
}
