// The vocabulary of `causeway doctor`: what was looked at, and what came of it. A check either found everything in order,
// or names what is wrong and what to do. Whatever depends on something that failed is not checked, which is no failure.

import type { FindingCode } from '../cluster/finding.ts';

/** In the order in which a connection, and so the doctor, goes. */
export const steps = [
  'config',
  'dns',
  'tcp',
  'route',
  'tls',
  'api',
  'konnectivity',
  'tenant',
  'ingress',
  'certificates',
  'clocks',
] as const;
export type Step = (typeof steps)[number];

/** Besides those of findings. Each has a row in docs/troubleshoot.md. */
export const doctorCodes = [
  'ConfigInvalid',
  'ConfigWarning',
  'ConfigRefused',
  'RestartNeeded',
  'SourceUnreadable',
  'IdleTimeoutShort',
  'KeepaliveSlow',
  'AgentsUnrestricted',
  'BalancersUnrestricted',
  'KonnectivityBalance',
  'HealthChecksOff',
  'HaproxyTlvAcl',
  'DnsMissing',
  'DnsElsewhere',
  'DnsSwallowed',
  'DnsTtlLong',
  'DnsFailed',
  'TcpRefused',
  'TcpTimeout',
  'TcpUnreachable',
  'NotRouted',
  'BackendDown',
  'NotServed',
  'NotAllowed',
  'TlsFailed',
  'LargeHelloLost',
  'CertificateExpired',
  'CertificateNotYetValid',
  'CertificateUntrusted',
  'AlpnMissing',
  'ApiNotReady',
  'ApiUnexpected',
  'ApiNoAnswer',
  'CredentialsRefused',
  'KubeconfigElsewhere',
  'KonnectivityNoHttp2',
  'KonnectivitySilent',
  'AgentMissing',
  'AgentNotReady',
  'AgentSecretMissing',
  'EndpointsMissing',
  'EndpointSliceInvalid',
  'EndpointUnreachable',
  'EndpointStale',
  'EndpointIncomplete',
  'EndpointsDiffer',
  'SkipMirrorMissing',
  'NoSniRefused',
  'NoSniElsewhere',
  'ObjectMissing',
  'IngressClassMissing',
  'PassthroughMissing',
  'SslPassthroughOff',
  'EntryPointMissing',
  'CertificateShared',
  'ClockSkew',
] as const;
export type DoctorCode = (typeof doctorCodes)[number] | FindingCode;

export interface Check {
  readonly step: Step;
  /** null for what concerns the gateway as a whole. */
  readonly cluster: string | null;
  readonly status: 'ok' | 'warn' | 'fail';
  /** `Ok`, or what is wrong. */
  readonly code: DoctorCode | 'Ok';
  readonly text: string;
  /** What to do; null where nothing is wrong. */
  readonly fix: string | null;
}

/** A step that could not be taken, or was not asked for. */
export interface NotChecked {
  readonly step: Step;
  readonly cluster: string | null;
  readonly why: string;
}

export interface Diagnosis {
  readonly checks: readonly Check[];
  readonly notChecked: readonly NotChecked[];
}

/** Collects the checks of one cluster, or of the gateway as a whole. */
export class Report {
  readonly cluster: string | null;
  readonly checks: Check[] = [];
  readonly notChecked: NotChecked[] = [];

  constructor(cluster: string | null) {
    this.cluster = cluster;
  }

  ok(step: Step, text: string): void {
    this.checks.push({ step, cluster: this.cluster, status: 'ok', code: 'Ok', text, fix: null });
  }

  warn(step: Step, code: DoctorCode, text: string, fix: string): void {
    this.checks.push({ step, cluster: this.cluster, status: 'warn', code, text, fix });
  }

  fail(step: Step, code: DoctorCode, text: string, fix: string): void {
    this.checks.push({ step, cluster: this.cluster, status: 'fail', code, text, fix });
  }

  skip(step: Step, why: string): void {
    this.notChecked.push({ step, cluster: this.cluster, why });
  }

  hasFailed(step: Step): boolean {
    return this.checks.some(check => check.step === step && check.status === 'fail');
  }
}
