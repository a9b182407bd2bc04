// The way to one cluster, step by step. A step that depends on one that failed is not taken, and says so.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { type Clock } from '../kube/clock.ts';
import { services } from '../kube/resources.ts';
import { Report, type Step, steps as stepOrder } from './check.ts';
import { checkApi, checkWhoami } from './check-api.ts';
import { checkClocks } from './check-clocks.ts';
import { checkDns } from './check-dns.ts';
import { checkFindings } from './check-findings.ts';
import { checkIngress } from './check-ingress.ts';
import { checkKonnectivity } from './check-konnectivity.ts';
import { checkNoSni } from './check-no-sni.ts';
import { checkRoutes } from './check-route.ts';
import { checkClusterSettings } from './check-settings.ts';
import { checkAgentSecret, checkTenantAgents } from './check-tenant-agents.ts';
import { checkTenantEndpoints, type TenantEndpointsFound } from './check-tenant-endpoints.ts';
import { checkTls } from './check-tls.ts';
import type { Place } from './gateway-places.ts';
import type { Tenant } from './open-tenant.ts';
import { type Repair, repairEndpoints } from './repair.ts';
import { apiHostOf, routeOfKind, type SeenRoute, type World } from './world.ts';

export interface ExaminedCluster {
  readonly cluster: Cluster;
  readonly report: Report;
  readonly seen: readonly SeenRoute[];
  readonly repairs: readonly Repair[];
}

export interface ClusterQuestion {
  readonly cluster: Cluster;
  readonly findings: readonly Finding[];
  /** Listeners that accept connections. */
  readonly reached: ReadonlySet<Place>;
  readonly clock: Clock;
}

export async function examineCluster(question: ClusterQuestion, world: World): Promise<ExaminedCluster> {
  const { cluster, findings, reached } = question;
  const report = new Report(cluster.name);
  checkFindings(findings, report);
  checkClusterSettings(cluster, report);
  await checkDns(cluster, world, report);
  checkRoutes(cluster, world, report);
  const tenant = await world.tenant(cluster);
  const facts = { ca: tenant?.ca, serviceIps: await serviceIpsOf(tenant) };
  const seen = await checkTls(cluster, world, reached, facts, report);
  const repairs = await examineApi(question, world, tenant, seen, report);
  await checkKonnectivity(cluster, world, reached, seen, report);
  await checkIngress(cluster, world.config, world.management(cluster), report);
  inOrder(report);
  return { cluster, report, seen, repairs };
}

/** Asked before the certificate is judged; where it cannot be, the reason shows in a later step. */
async function serviceIpsOf(tenant: Tenant | undefined): Promise<readonly string[]> {
  if (tenant === undefined || tenant.problem !== undefined) return [];
  const service = await tenant.api.get(services, 'default', 'kubernetes');
  return service.ok ? (service.value.spec?.clusterIPs ?? []).filter(ip => ip !== 'None') : [];
}

async function examineApi(
  question: ClusterQuestion,
  world: World,
  tenant: Tenant | undefined,
  seen: readonly SeenRoute[],
  report: Report,
): Promise<readonly Repair[]> {
  const { cluster } = question;
  const { network, places, config, now } = world;
  const route = routeOfKind(cluster, 'api');
  const host = apiHostOf(cluster);
  const place = route && places.placeOf(route);
  const isSeen = seen.some(one => one.route === route);
  if (host === undefined || place === undefined || !isSeen) {
    const why =
      host === undefined ? 'the cluster has no API host' : 'TLS of its API failed or was not checked';
    for (const step of ['api', 'tenant', 'clocks'] satisfies Step[]) report.skip(step, why);
    return [];
  }
  const reading = await checkApi(place.at, host, network, now, report);
  checkClocks(reading, config, report);
  if (tenant === undefined) {
    report.skip('tenant', 'no credentials: give --tenant-kubeconfig F to look inside the cluster');
    await noSni(question, world, undefined, report);
    return [];
  }
  if (tenant.problem !== undefined) {
    const { code, text, fix } = tenant.problem;
    report.fail('tenant', code, text, fix);
    await noSni(question, world, undefined, report);
    return [];
  }
  if (report.hasFailed('tls') || report.hasFailed('api')) {
    report.skip('tenant', 'TLS or the API failed');
    return [];
  }
  if (!(await checkWhoami(cluster, tenant, report))) {
    report.skip('tenant', 'the credentials are of no use');
    return [];
  }
  return examineTenant(question, world, tenant, report);
}

async function examineTenant(
  question: ClusterQuestion,
  world: World,
  tenant: Tenant,
  report: Report,
): Promise<readonly Repair[]> {
  const { cluster, clock } = question;
  const { config, keyOf } = world;
  const { agents, hasStewards } = await checkTenantAgents(tenant, config, report);
  await checkAgentSecret(tenant, config, keyOf?.(cluster.id ?? cluster.name), report);
  const isWritten = config.outputs.some(({ kind }) => kind === 'tenantAgent' || kind === 'tenantEndpoints');
  const isOurs = isWritten || hasStewards || (agents ?? []).length > 0;
  const found = await checkTenantEndpoints({ cluster, tenant, agents, isOurs }, report);
  // An agent that cannot be reached has been named; its connections would only fail once more.
  if (!report.hasFailed('tenant')) await noSni(question, world, isOurs ? found : undefined, report);
  if (found?.repair === undefined) return [];
  return [repairEndpoints(cluster.name, found.repair, tenant.api, clock)];
}

function noSni(
  { cluster, reached }: ClusterQuestion,
  world: World,
  found: TenantEndpointsFound | undefined,
  report: Report,
): Promise<void> {
  return checkNoSni(cluster, world, reached, found, report);
}

/** Clocks are read where the API answers, and shown last. */
function inOrder(report: Report): void {
  const order = new Map(stepOrder.map((step, index) => [step, index]));
  const by = (a: { readonly step: Step }, b: { readonly step: Step }) =>
    (order.get(a.step) ?? 0) - (order.get(b.step) ?? 0);
  report.checks.sort(by);
  report.notChecked.sort(by);
}
