// Findings about the certificate that a tenant's API server presents. Pure: what was seen, the cluster and the time in,
// findings out. Names that `certSANs` of the object lacks are a finding of its source (tenant-advice.ts), not of this.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { normalizeHost, wildcardOf } from '../cluster/hostname.ts';
import { clusterFinding } from '../outputs/service-rules.ts';
import { yamlList } from '../sources/report.ts';

/** Pods verify the API server under this name, whatever name the gateway knows it by. */
const NAME_INSIDE = 'kubernetes.default.svc';
/** Of one cluster: each may take a connection. */
const MAX_NAMES = 8;
const DAY_MS = 86_400_000;
/** Operators that renew certificates do so earlier. */
const WARN_DAYS = 14;

export interface ServedCertificate {
  /** Names that it should have and has not. */
  readonly missing: readonly string[];
  /** In ms since 1970. NaN if it cannot be read. */
  readonly notAfter: number;
}

/** The names under which clients verify the certificate of the API server; konnectivity's server presents the same. */
export function namesToVerify({ routes }: Cluster): readonly string[] {
  const api = routes.find(({ kind }) => kind === 'api');
  const konnectivity = routes.find(({ kind }) => kind === 'konnectivity');
  // An annotated Service may have added the route: another server, with another certificate.
  const isSameServer = konnectivity?.service?.name === api?.service?.name;
  const hosts = [...(api?.hosts ?? []), ...(isSameServer ? (konnectivity?.hosts ?? []) : [])];
  return [...hosts.slice(0, MAX_NAMES - 1), NAME_INSIDE];
}

export function certificateFindings(
  cluster: Cluster,
  { missing, notAfter }: ServedCertificate,
  now: Date,
): readonly Finding[] {
  return [...missingNames(cluster, missing), ...expiry(cluster, notAfter, now.getTime())];
}

function missingNames(cluster: Cluster, missing: readonly string[]): readonly Finding[] {
  const { certSANs } = cluster.controlPlane ?? {};
  const wanted = namesToVerify(cluster).filter(name => missing.includes(name));
  const report = (text: string, fix: string) =>
    clusterFinding(cluster, 'warning', 'CertificateSanMissing', `the API server's certificate ${text}`, fix);
  if (certSANs === undefined) {
    if (wanted.length === 0) return [];
    const text = `does not have ${quoted(wanted)}, so clients will not trust it under ${wanted.length === 1 ? 'that name' : 'those names'}`;
    return [report(text, issueAgain(cluster))];
  }
  const listed = new Set(certSANs.map(normalizeHost));
  const isListed = (name: string) =>
    [name, wildcardOf(name)].some(one => one !== undefined && listed.has(one));
  const stale = wanted.filter(isListed);
  const findings: Finding[] = [];
  if (stale.length > 0) {
    const text = `does not have ${quoted(stale)}, although spec.networkProfile.certSANs does: it has not been issued again, or the API server has not been restarted since`;
    findings.push(report(text, issueAgain(cluster)));
  }
  if (wanted.includes(NAME_INSIDE) && !isListed(NAME_INSIDE)) {
    const yaml = `spec: { networkProfile: { certSANs: ${yamlList([NAME_INSIDE])} } }`;
    const text = `does not have '${NAME_INSIDE}', so pods of the cluster will not trust it`;
    findings.push(report(text, `Add to the list: ${yaml}`));
  }
  return findings;
}

function expiry(cluster: Cluster, notAfter: number, now: number): readonly Finding[] {
  const left = notAfter - now;
  // Not so for NaN, either.
  if (!(left <= WARN_DAYS * DAY_MS)) return [];
  const date = new Date(notAfter).toISOString().slice(0, 10);
  const days = Math.floor(Math.abs(left) / DAY_MS);
  const count = days === 0 ? 'less than a day' : days === 1 ? '1 day' : `${days} days`;
  const when = left > 0 ? `expires in ${count}, on ${date}` : `expired ${count} ago, on ${date}`;
  const text = `the API server's certificate ${when}`;
  return [clusterFinding(cluster, 'warning', 'CertificateExpires', text, issueAgain(cluster))];
}

function issueAgain({ controlPlane }: Cluster): string {
  const { namespace, secret } = controlPlane?.servingCertificate ?? {};
  if (namespace === undefined || secret === undefined) return 'Let its operator issue it again';
  return `Let its operator issue it again: kubectl delete secret --namespace ${namespace} ${secret}`;
}

function quoted(names: readonly string[]): string {
  return names.map(name => `'${name}'`).join(' and ');
}
