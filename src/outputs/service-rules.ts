// The routes of a cluster as rules for a controller that passes TLS through by SNI: one host to one port of a Service.
// Outputs turn them into their own format.
//
// Routes without a Service (those of files) and cleartext HTTP become no rules. A host that a format cannot express gets
// a finding, one for each reason however many hosts there are.

import type { Cluster, Route, ServicePort } from '../cluster/cluster.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';
import { isHostname, isWildcard } from '../cluster/hostname.ts';

/** Of the hosts in a finding's text. */
const NAMED_HOSTS = 3;

export interface ServiceRule {
  /** Of the route. */
  readonly kind: string;
  readonly host: string;
  readonly service: ServicePort;
}

export interface ServiceRules {
  /** Objects can name Services of their own namespace only. In the order of the routes. */
  readonly byNamespace: ReadonlyMap<string, readonly ServiceRule[]>;
  readonly findings: readonly Finding[];
}

/** `refusal` says why the format cannot express a host, or undefined. It gets legal names and wildcards only. */
export function serviceRules(
  output: string,
  cluster: Cluster,
  refusal: (host: string) => string | undefined = () => undefined,
): ServiceRules {
  const byNamespace = new Map<string, ServiceRule[]>();
  const refused = new Map<string, string[]>();
  const taken = new Set<string>();
  const restricted: string[] = [];
  for (const route of cluster.routes) {
    const { service } = route;
    if (service === undefined || route.kind === 'apps-http') continue;
    const rules = byNamespace.get(service.namespace) ?? [];
    const before = rules.length;
    for (const host of route.hosts) {
      const why = whyNot(route, host, taken) ?? refusal(host);
      if (why === undefined) {
        taken.add(host);
        rules.push({ kind: route.kind, host, service });
      } else {
        const hosts = refused.get(why);
        if (hosts === undefined) refused.set(why, [host]);
        else hosts.push(host);
      }
    }
    if (rules.length === before) continue;
    byNamespace.set(service.namespace, rules);
    if ((route.allow ?? cluster.allow) !== undefined) restricted.push(route.kind);
  }
  const findings = [...refused].map(([why, hosts]) => refusedHosts(output, cluster, why, hosts));
  if (restricted.length > 0) findings.push(ignoredAllowList(output, cluster, restricted));
  return { byNamespace, findings };
}

export function clusterFinding(
  { name: cluster, origin }: Cluster,
  severity: Finding['severity'],
  code: FindingCode,
  text: string,
  fix: string,
): Finding {
  return { cluster, ...(origin.object && { origin }), severity, code, text, fix };
}

/** The first few, in quotes. */
export function nameHosts(hosts: readonly string[]): string {
  const named = hosts.slice(0, NAMED_HOSTS).map(host => `'${host.slice(0, 253)}'`);
  const more = hosts.length > NAMED_HOSTS ? ` and ${hosts.length - NAMED_HOSTS} more` : '';
  return `${named.join(', ')}${more}`;
}

function whyNot({ alpn }: Route, host: string, taken: ReadonlySet<string>): string | undefined {
  if (!isHostname(host) && !isWildcard(host)) return 'not a host name';
  if (alpn.length > 0) return 'its route is selected by ALPN';
  if (taken.has(host)) return 'another route of the cluster has the same host';
  return undefined;
}

function refusedHosts(output: string, cluster: Cluster, why: string, hosts: readonly string[]): Finding {
  const text = `output '${output}' leaves out ${nameHosts(hosts)}: ${why}`;
  const fix = 'Choose another host, or let clients reach it through this gateway, which serves it';
  return clusterFinding(cluster, 'error', 'OutputRejected', text, fix);
}

/** Whoever limits who may connect should know where that is not so. */
function ignoredAllowList(output: string, cluster: Cluster, kinds: readonly string[]): Finding {
  const routes = kinds.map(kind => `'${kind}'`).join(', ');
  const text = `the allow list of ${routes} applies to this gateway only: the controller that reads output '${output}' admits anyone`;
  const fix = `Restrict clients at that controller too, or take output '${output}' out of the file`;
  return clusterFinding(cluster, 'warning', 'AllowListIgnored', text, fix);
}
