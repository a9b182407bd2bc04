// `fix: true`: adds to a TenantControlPlane what it lacks behind the gateway. The lists are atomic for server-side apply,
// which would replace the user's entries, so items are appended by JSON patch; nothing that is there changes.

import type { Cluster } from '../cluster/cluster.ts';
import { isRecord } from '../config/is-record.ts';
import type { PatchOperation } from '../kube/kube-api.ts';
import { gapsOf } from './control-plane-gaps.ts';
import {
  readTenantControlPlane,
  type TenantControlPlane,
  type TenantSystem,
} from './tenant-control-plane.ts';
import { clientPort } from './tenant-hosts.ts';

/**
 * Empty where nothing is missing or the object is paused. `cluster` is as the plan has settled it: hosts that it may not
 * have do not get into its certificate. Fails with 422 if the object has changed meanwhile.
 */
export function fixControlPlane(
  object: TenantControlPlane,
  cluster: Cluster,
  system: TenantSystem,
  wantsReconcilerNone: boolean,
): readonly PatchOperation[] {
  const fields = readTenantControlPlane(object, system);
  const { resourceVersion } = object.metadata;
  if (fields.isPaused || resourceVersion === undefined || !isRecord(object.spec)) return [];
  const hostsOf = (kind: string) => cluster.routes.find(route => route.kind === kind)?.hosts ?? [];
  const [konnectivity] = hostsOf('konnectivity');
  const hosts = { api: hostsOf('api'), konnectivity, port: clientPort(fields) };
  const gaps = gapsOf(fields, hosts, wantsReconcilerNone);
  const operations = [
    ...append(object, ['spec', 'networkProfile', 'certSANs'], gaps.certSANs),
    ...append(object, ['spec', 'addons', 'konnectivity', 'agent', 'extraArgs'], gaps.agentArgs),
    ...append(object, ['spec', 'controlPlane', 'deployment', 'extraArgs', 'apiServer'], gaps.apiServerArgs),
  ];
  if (operations.length === 0) return [];
  return [{ op: 'test', path: '/metadata/resourceVersion', value: resourceVersion }, ...operations];
}

/**
 * Appends to a list, or creates it and the maps above it, which no two of our lists have in common. Something else in
 * their place is not ours to replace.
 */
function append(
  object: TenantControlPlane,
  path: readonly string[],
  items: readonly string[],
): readonly PatchOperation[] {
  if (items.length === 0) return [];
  let found: unknown = object;
  for (const [depth, key] of path.entries()) {
    if (!isRecord(found)) return [];
    found = Object.hasOwn(found, key) ? found[key] : undefined;
    if (found !== undefined && found !== null) continue;
    const below = path.slice(depth + 1);
    const value = below.reduceRight<unknown>((inner, name) => ({ [name]: inner }), items);
    return [{ op: 'add', path: pointer(path.slice(0, depth + 1)), value }];
  }
  return Array.isArray(found) ? items.map(value => ({ op: 'add', path: `${pointer(path)}/-`, value })) : [];
}

/** RFC 6901; none of our keys has a character that must be escaped. */
function pointer(path: readonly string[]): string {
  return `/${path.join('/')}`;
}
