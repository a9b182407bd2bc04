// Findings of sources and plan, as checks: what `run` would write to the log, the dashboard and the objects.

import type { Finding } from '../cluster/finding.ts';
import type { Report, Step } from './check.ts';

/** Those that belong to a later step than the table. */
const stepOf: Readonly<Partial<Record<Finding['code'], Step>>> = {
  SecretMissing: 'tenant',
  KubeconfigInvalid: 'tenant',
  TenantUnreachable: 'tenant',
  ReconcilerTypeMissing: 'tenant',
  TcpProxyBeside: 'tenant',
  KonnectivityArgsMissing: 'konnectivity',
  KonnectivityHostMissing: 'konnectivity',
};

export function checkFindings(findings: readonly Finding[], report: Report): void {
  for (const { severity, code, text, fix } of findings) {
    const step = stepOf[code] ?? 'config';
    if (severity === 'error') report.fail(step, code, text, fix);
    else if (severity === 'warning') report.warn(step, code, text, fix);
  }
}
