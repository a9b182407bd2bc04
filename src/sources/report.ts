// How the readers of a source report what they find about one object.

import type { Origin } from '../cluster/cluster.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';
import type { Reading } from '../config/reading.ts';

export type Report = (severity: Finding['severity'], code: FindingCode, text: string, fix: string) => void;

/** Adds findings about this cluster and object to the list. */
export function reportTo(findings: Finding[], cluster: string, origin: Origin): Report {
  return (severity, code, text, fix) => findings.push({ cluster, origin, severity, code, text, fix });
}

/** A host that was read from a field of an object; undefined where it is none, which is reported. */
export function acceptedHost(reading: Reading<string>, where: string, report: Report): string | undefined {
  if ('value' in reading) return reading.value;
  report('error', 'HostInvalid', `${where} ${reading.fault}`, 'Use a host name such as api.example.com');
  return undefined;
}

/** A list in YAML's flow style. In quotes, because a host may be called `true` or `null`. */
export function yamlList(items: readonly string[]): string {
  return `[${items.map(item => JSON.stringify(item)).join(', ')}]`;
}
