// Follows the Nodes of many clusters, each with the admin kubeconfig that the management cluster keeps in a Secret: one
// watch for each cluster, of which only addresses are kept. Each fails alone, is asked ever more rarely while it does, and
// keeps its last addresses.

import { CallSlots } from '../kube/call-slots.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import type { KubeAccess } from '../kube/kube-access.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { openKubeClient } from '../kube/kube-client.ts';
import { openReflector, type Reflector } from '../kube/reflector.ts';
import { nodes } from '../kube/resources.ts';
import { TenantClient } from '../kube/tenant-client.ts';
import { type KubeconfigSecret, TenantCredentials } from '../kube/tenant-credentials.ts';
import { type KeptNode, keepNode, readyNodes } from './ready-nodes.ts';
import type { Problem } from './service-finding.ts';

/** Lists of all clusters at once; the others wait. Watches do not count. */
const MAX_CALLS = 16;
const MAX_WAIT_MS = 120_000;
/** Of one cluster: Kubernetes is made for 5,000. */
const MAX_NODES = 20_000;

export interface NodeWatchesOptions {
  /** The API server that has the Secrets. */
  readonly management: KubeApi;
  readonly clock?: Clock | undefined;
  /** From 0 to 1. */
  readonly random?: () => number;
  readonly openClient?: ((access: KubeAccess) => KubeApi & Disposable) | undefined;
}

export interface FollowedCluster {
  /** Another object of the same name is another cluster. */
  readonly uid: string;
  readonly secret: KubeconfigSecret;
  /** The last addresses that are known, from an earlier run. */
  readonly last: readonly string[] | undefined;
}

/** The same object as long as nothing about it has changed. */
export interface NodeState {
  /** Of nodes that can serve, or the last ones that could. Undefined: none was ever seen. */
  readonly addresses: readonly string[] | undefined;
  readonly problems: readonly Problem[];
}

export interface NodeWatches extends AsyncDisposable {
  /** All clusters to follow, by name. Those that are missing are no longer followed. */
  update(clusters: ReadonlyMap<string, FollowedCluster>): void;
  /** Undefined for a cluster that is not followed. */
  of(cluster: string): NodeState | undefined;
}

interface Followed {
  /** Its uid and Secret. */
  readonly key: string;
  state: NodeState;
  end(): Promise<void>;
}

/** `changed` is called after the state of a cluster has changed, and never from within a call. */
export function openNodeWatches(options: NodeWatchesOptions, changed: () => void): NodeWatches {
  const { management, clock = systemClock, random = Math.random } = options;
  const { openClient = (access: KubeAccess) => openKubeClient({ access }) } = options;
  const slots = new CallSlots(MAX_CALLS, MAX_WAIT_MS, clock);
  const all = new Map<string, Followed>();
  const ending = new Set<Promise<void>>();

  function follow({ secret, last }: FollowedCluster, key: string): Followed {
    const credentials = new TenantCredentials(management, secret, clock);
    const http = openClient(credentials);
    let hasEnded = false;
    const refresh = () => {
      if (hasEnded) return;
      const state = stateOf(reflector, client, followed.state.addresses);
      if (isSame(state, followed.state)) return;
      followed.state = state;
      changed();
    };
    const client = new TenantClient({
      client: http,
      credentials,
      slots,
      clock,
      random,
      watches: true,
      maxObjects: MAX_NODES,
      changed: refresh,
    });
    const reflector = openReflector(client, nodes, { keep: keepNode, clock, random }, refresh);
    const followed: Followed = {
      key,
      state: { addresses: last, problems: [] },
      async end() {
        hasEnded = true;
        http[Symbol.dispose]();
        await reflector[Symbol.asyncDispose]();
      },
    };
    return followed;
  }

  function end(name: string, followed: Followed): void {
    all.delete(name);
    const done = followed.end().finally(() => ending.delete(done));
    ending.add(done);
  }

  return {
    update(clusters) {
      for (const [name, followed] of all) if (!clusters.has(name)) end(name, followed);
      for (const [name, cluster] of clusters) {
        const key = JSON.stringify([cluster.uid, cluster.secret]);
        const known = all.get(name);
        if (known?.key === key) continue;
        if (known !== undefined) end(name, known);
        all.set(name, follow(cluster, key));
      }
    },
    of: cluster => all.get(cluster)?.state,
    async [Symbol.asyncDispose]() {
      for (const [name, followed] of all) end(name, followed);
      await Promise.all(ending);
    },
  };
}

function stateOf(
  reflector: Reflector<KeptNode>,
  { problem }: TenantClient,
  last: readonly string[] | undefined,
): NodeState {
  const { addresses, problem: unready } = reflector.synced
    ? readyNodes(reflector.objects, last)
    : { addresses: last, problem: undefined };
  const unread = problem ?? (reflector.error === undefined ? undefined : notRead(reflector.error));
  const severity = addresses === undefined || addresses.length === 0 ? 'error' : 'warning';
  const problems = [...(unready ? [unready] : []), ...(unread ? [{ severity, ...unread } as const] : [])];
  return { addresses, problems };
}

function notRead(error: string): Omit<Problem, 'severity'> {
  const fix = 'Look at the control plane, and at the rights of its admin kubeconfig; it is tried again';
  return { code: 'TenantUnreachable', text: `The nodes of the cluster cannot be read: ${error}`, fix };
}

function isSame(a: NodeState, b: NodeState): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
