// Something a person should know about a cluster. Codes are a closed, documented set.

export const findingCodes = [
  'HostClaimed',
  'IdClaimed',
  'NameClaimed',
  'ConnectNameClaimed',
  'HostInvalid',
  'EndpointsOverwritten',
  'EndpointIsClusterIp',
  'EndpointFamilyMissing',
  'EndpointPortsDiffer',
] as const;
export type FindingCode = (typeof findingCodes)[number];

export interface Finding {
  readonly cluster: string;
  readonly severity: 'info' | 'warning' | 'error';
  readonly code: FindingCode;
  readonly text: string;
  /** What to do about it. */
  readonly fix: string;
}
