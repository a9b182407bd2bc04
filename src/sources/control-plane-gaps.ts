// What a TenantControlPlane lacks in order to work behind a shared address: the entries that the manuals of Kamaji's
// ingress addon and of Steward's ingress mode ask people to add by hand. tenant-advice.ts words them as findings,
// fix-control-plane.ts adds them.

import { isNameInside, normalizeHost, wildcardOf } from '../cluster/hostname.ts';
import { flagValue } from './flag-value.ts';
import type { TenantFields } from './tenant-control-plane.ts';
import type { TenantHosts } from './tenant-hosts.ts';

/** Entries to append, by list. */
export interface Gaps {
  readonly certSANs: readonly string[];
  readonly agentArgs: readonly string[];
  readonly apiServerArgs: readonly string[];
}

export const RECONCILER_FLAG = '--endpoint-reconciler-type';

export function gapsOf(fields: TenantFields, hosts: TenantHosts, wantsReconcilerNone: boolean): Gaps {
  return {
    certSANs: missingSans(fields, hosts),
    agentArgs: missingAgentArgs(fields, hosts),
    apiServerArgs:
      wantsReconcilerNone && reconcilerType(fields) === undefined ? [`${RECONCILER_FLAG}=none`] : [],
  };
}

/** As the API server runs; undefined means Kubernetes' default. */
export function reconcilerType({ apiServerArgs, tcpProxy }: TenantFields): string | undefined {
  // With that addon Steward sets the flag itself.
  return flagValue(apiServerArgs, RECONCILER_FLAG) ?? (tcpProxy && 'none');
}

/** The konnectivity server has the API server's certificate. */
function missingSans({ certSANs }: TenantFields, { api, konnectivity }: TenantHosts): readonly string[] {
  const listed = new Set(certSANs.map(normalizeHost));
  return [...api, ...(konnectivity === undefined ? [] : [konnectivity])].filter(host => {
    const wildcard = wildcardOf(host);
    // Certificates have the names inside anyway, and the plan gives those to nobody.
    if (isNameInside(host)) return false;
    return !listed.has(host) && (wildcard === undefined || !listed.has(wildcard));
  });
}

/** A flag that is set to something else stays: it is the user's. */
function missingAgentArgs({ konnectivity }: TenantFields, hosts: TenantHosts): readonly string[] {
  if (konnectivity === undefined || hosts.konnectivity === undefined) return [];
  const wanted = [
    ['--proxy-server-host', hosts.konnectivity],
    ['--proxy-server-port', hosts.port],
  ] as const;
  return wanted
    .filter(([flag]) => flagValue(konnectivity.agentArgs, flag) === undefined)
    .map(([flag, value]) => `${flag}=${value}`);
}
