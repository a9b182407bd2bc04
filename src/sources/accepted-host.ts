// A host name that an object gives, or undefined with a finding.

import type { Reading } from '../config/reading.ts';
import type { Report } from './report.ts';

/** `where` as `spec.ingress.apiHost`. */
export function acceptedHost(reading: Reading<string>, where: string, report: Report): string | undefined {
  if ('value' in reading) return reading.value;
  report('error', 'HostInvalid', `${where} ${reading.fault}`, 'Use a host name such as api.example.com');
  return undefined;
}

/** Go leaves out an empty string as if it were not set. */
export function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '';
}
