// How the readers of a source report what they find about one object.

import type { Origin } from '../cluster/cluster.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';

export type Report = (severity: Finding['severity'], code: FindingCode, text: string, fix: string) => void;

/** Adds findings about this cluster and object to the list. */
export function reportTo(findings: Finding[], cluster: string, origin: Origin): Report {
  return (severity, code, text, fix) => findings.push({ cluster, origin, severity, code, text, fix });
}

/** A list in YAML's flow style. In quotes, because a host may be called `true` or `null`. */
export function yamlList(items: readonly string[]): string {
  return `[${items.map(item => JSON.stringify(item)).join(', ')}]`;
}
