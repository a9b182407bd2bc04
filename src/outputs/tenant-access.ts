// Access to the API servers of tenants, with the admin kubeconfigs that the management cluster keeps in Secrets. Each
// tenant fails alone, and all of them together are bounded in connections.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { CallSlots } from '../kube/call-slots.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import type { KubeAccess } from '../kube/kube-access.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { openKubeClient } from '../kube/kube-client.ts';
import { TenantClient } from '../kube/tenant-client.ts';
import { TenantCredentials } from '../kube/tenant-credentials.ts';

/** Calls to all tenants at once, each over one connection. */
const MAX_CALLS = 128;
const MAX_WAIT_MS = 30_000;
/** For one call; admission webhooks may take 10 s. */
const TIMEOUT_MS = 12_000;

export interface TenantAccessOptions {
  /** The API server that has the Secrets of this cluster: that of its source. */
  readonly management: (cluster: Cluster) => KubeApi;
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
  readonly openClient?: (access: KubeAccess) => KubeApi & Disposable;
}

/** Disposing closes all connections. */
export interface TenantAccess extends Disposable {
  /** All clusters that there are. Those that are gone lose their connections. */
  update(clusters: readonly Cluster[]): void;
  /**
   * By the cluster's name; undefined where it has no admin kubeconfig. The same object as long as the cluster and its
   * Secret have the same names. Its watches have no events but expire after minutes, so that no connection stays open.
   */
  apiOf(cluster: string): KubeApi | undefined;
  /** Why tenants cannot be managed now. */
  readonly findings: readonly Finding[];
}

interface Tenant {
  cluster: Cluster;
  /** Where its Secret is; another one is another tenant. */
  readonly key: string;
  readonly http: KubeApi & Disposable;
  readonly client: TenantClient;
}

/** `changed()`: findings have changed. */
export function openTenantAccess(options: TenantAccessOptions, changed: () => void): TenantAccess {
  const { management, clock = systemClock, random = Math.random } = options;
  const { openClient = access => openKubeClient({ access, timeoutMs: TIMEOUT_MS }) } = options;
  const slots = new CallSlots(MAX_CALLS, MAX_WAIT_MS, clock);
  const tenants = new Map<string, Tenant>();
  let hasEnded = false;

  function open(cluster: Cluster, key: string): Tenant | undefined {
    const secret = cluster.controlPlane?.kubeconfig;
    if (secret === undefined) return undefined;
    const credentials = new TenantCredentials(management(cluster), secret, clock);
    const http = openClient(credentials);
    const onChange = () => {
      if (!hasEnded && tenants.get(cluster.name)?.http === http) changed();
    };
    const client = new TenantClient({ client: http, credentials, slots, clock, random, changed: onChange });
    return { cluster, key, http, client };
  }

  return {
    update(clusters) {
      const names = new Set(clusters.map(({ name }) => name));
      for (const cluster of clusters) {
        const known = tenants.get(cluster.name);
        const key = keyOf(cluster);
        if (known?.key === key) {
          known.cluster = cluster;
          continue;
        }
        known?.http[Symbol.dispose]();
        const tenant = open(cluster, key);
        if (tenant === undefined) tenants.delete(cluster.name);
        else tenants.set(cluster.name, tenant);
      }
      for (const [name, { http }] of tenants) {
        if (names.has(name)) continue;
        http[Symbol.dispose]();
        tenants.delete(name);
      }
    },
    apiOf: cluster => tenants.get(cluster)?.client,
    get findings() {
      return tenants
        .values()
        .flatMap(({ cluster: { name, origin }, client: { problem } }): Finding[] =>
          problem === undefined ? [] : [{ cluster: name, origin, severity: 'error', ...problem }],
        )
        .toArray();
    },
    [Symbol.dispose]() {
      hasEnded = true;
      for (const { http } of tenants.values()) http[Symbol.dispose]();
      tenants.clear();
    },
  };
}

/** The uid too: a control plane that was created again has other certificates. */
function keyOf({ origin, controlPlane }: Cluster): string {
  return JSON.stringify([origin.source, origin.object?.uid, controlPlane?.kubeconfig]);
}
