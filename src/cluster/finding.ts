// Something a person should know about a cluster, or about an object that did not become one. Codes are a closed,
// documented set.

import type { Origin } from './cluster.ts';

export const findingCodes = [
  'HostClaimed',
  'IdClaimed',
  'IdMissing',
  'NameClaimed',
  'ConnectNameClaimed',
  'HostUnderWildcard',
  'HostReserved',
  'HostOutsideDomains',
  'HostInvalid',
  'HostMissing',
  'AllowInvalid',
  'AnnotationInvalid',
  'ServiceMissing',
  'PortMissing',
  'NoEndpoints',
  'TooManyEndpoints',
  'BackendForbidden',
  'FileInvalid',
  'SourceCrdMissing',
  'SourceEmpty',
  'ForeignObject',
  'ForeignWriter',
  'OutputRejected',
  'OutputCrdMissing',
  'AllowListIgnored',
  'WildcardWider',
  'SecretMissing',
  'KubeconfigInvalid',
  'TenantUnreachable',
  'TcpProxyBeside',
  'ImageReplaced',
  'CertificateSanMissing',
  'CertificateExpires',
  'ReconcilerTypeMissing',
  'KonnectivityArgsMissing',
  'KonnectivityHostMissing',
  'HostnamePortMissing',
  'ServiceTypeUnusual',
  'EndpointsPrivate',
  'EndpointsLeft',
  'EndpointsOverwritten',
  'EndpointIsClusterIp',
  'EndpointFamilyMissing',
  'EndpointPortsDiffer',
  'NodesNotReady',
  'ZoneInvalid',
] as const;
export type FindingCode = (typeof findingCodes)[number];

export interface Finding {
  /** Absent for an object or a file that gives no cluster. */
  readonly cluster?: string;
  /** The claim or object it is about, where that is not obvious from the cluster; an Event is written on the object. */
  readonly origin?: Origin;
  readonly severity: 'info' | 'warning' | 'error';
  readonly code: FindingCode;
  readonly text: string;
  /** What to do about it. */
  readonly fix: string;
}

/** Whether people read the same in both, in the same order. */
export function areSameFindings(some: readonly Finding[], others: readonly Finding[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ cluster, code, text }, i) => {
      const other = others[i];
      return cluster === other.cluster && code === other.code && text === other.text;
    })
  );
}
