// The endpoints of a tenant's Service `default/kubernetes`: pods reach their API server through them.

import type { Cluster } from '../cluster/cluster.ts';
import { MANAGER } from '../kube/cluster-label.ts';
import { addressesOf, desiredEndpoints, SLICE_MANAGER_LABEL } from '../kube/desired-endpoints.ts';
import { type ExistingEndpoints, readEndpoints } from '../kube/endpoint-objects.ts';
import { wordsOf } from '../kube/kube-api.ts';
import type { EndpointSlice, Service } from '../kube/kube-object.ts';
import { endpointSlices, serviceCidrs, services } from '../kube/resources.ts';
import { familiesOf, isWithin, serviceEndpoint } from '../kube/service-endpoint.ts';
import { endpointsOfPods, type Pod } from '../outputs/agent-endpoints.ts';
import type { Report } from './check.ts';
import type { Tenant } from './open-tenant.ts';

const SERVICE_LABEL = 'kubernetes.io/service-name';
const SKIP_MIRROR = 'endpointslice.kubernetes.io/skip-mirror';
const READ = 'kubectl get endpointslices,endpoints kubernetes -o yaml';

export interface EndpointsQuestion {
  readonly cluster: Cluster;
  readonly tenant: Tenant;
  /** Pods of the agent; undefined where they could not be listed. */
  readonly agents: readonly Pod[] | undefined;
  /** Somebody other than the API server should write them: agents, `tenantEndpoints`, or Steward's proxy. */
  readonly isOurs: boolean;
}

export interface TenantEndpointsFound {
  readonly addresses: readonly string[];
  readonly port: number | undefined;
  /** What they should be, where that differs and is known. */
  readonly repair?: {
    readonly existing: ExistingEndpoints;
    readonly desired: ReturnType<typeof desiredEndpoints>;
  };
}

export async function checkTenantEndpoints(
  question: EndpointsQuestion,
  report: Report,
): Promise<TenantEndpointsFound | undefined> {
  const { api } = question.tenant;
  const service = await api.get(services, 'default', 'kubernetes');
  if (!service.ok) {
    report.skip('tenant', `Service default/kubernetes cannot be read: ${wordsOf(service.fault)}`);
    return undefined;
  }
  const served = await api.list(endpointSlices, {
    namespace: 'default',
    labelSelector: `${SERVICE_LABEL}=kubernetes`,
  });
  if (!served.ok) {
    report.skip('tenant', `EndpointSlices cannot be listed: ${wordsOf(served.fault)}`);
    return undefined;
  }
  const existing = await readEndpoints(api);
  if (!existing.ok) {
    report.skip('tenant', `EndpointSlice default/kubernetes cannot be read: ${wordsOf(existing.fault)}`);
    return undefined;
  }
  const before = report.checks.length;
  const slice = existing.value.slices.get('kubernetes');
  if (slice === undefined || addressesOf(slice).length === 0) {
    const text =
      'EndpointSlice default/kubernetes has no address: pods get connection refused from kubernetes.default.svc';
    const fix = question.isOurs
      ? `Agents write it with --endpoints, or tenantEndpoints does: look at their findings; ${READ}`
      : 'With --endpoint-reconciler-type=none somebody must write it: agents with --endpoints, or the output tenantEndpoints';
    report.fail('tenant', 'EndpointsMissing', text, fix);
    return { addresses: [], port: undefined, ...repairOf(question, service.value, existing.value) };
  }
  checkWriter(question, slice, report);
  checkSlice(slice, report);
  await checkAddresses(question, service.value, slice, report);
  checkAgents(question, slice, report);
  checkMirror(slice, existing.value, report);
  const addresses = addressesOf(slice);
  const port = portOf(slice);
  if (report.checks.length === before) {
    report.ok(
      'tenant',
      `EndpointSlice default/kubernetes leads to ${addresses.slice(0, 4).join(', ')} port ${port}`,
    );
  }
  const isWrong = report.checks.length > before;
  return { addresses, port, ...(isWrong && repairOf(question, service.value, existing.value)) };
}

/** kube-apiserver writes them itself unless its reconciler is off, and would undo ours. */
function checkWriter({ isOurs }: EndpointsQuestion, slice: EndpointSlice, report: Report): void {
  const manager = slice.metadata.managedFields?.find(
    ({ fieldsV1 }) => fieldsV1 !== undefined && 'f:endpoints' in fieldsV1,
  )?.manager;
  if (!isOurs || manager !== 'kube-apiserver') return;
  const text =
    'The API server itself writes EndpointSlice default/kubernetes, so that pods dial its own address and not the agent';
  const fix =
    'Run the API server with --endpoint-reconciler-type=none: spec.controlPlane.deployment.extraArgs.apiServer of a TenantControlPlane';
  report.fail('tenant', 'ReconcilerTypeMissing', text, fix);
}

function checkSlice({ metadata, ports }: EndpointSlice, report: Report): void {
  const wrong = [
    ...(metadata.labels?.[SERVICE_LABEL] === 'kubernetes' ? [] : [`no label ${SERVICE_LABEL}: kubernetes`]),
    ...(ports?.some(({ name }) => name === 'https') ? [] : ['no port named https']),
  ];
  if (wrong.length === 0) return;
  const text = `EndpointSlice default/kubernetes has ${wrong.join(' and ')}: kube-proxy does not use it`;
  report.fail(
    'tenant',
    'EndpointSliceInvalid',
    text,
    `Delete it, so that its writer makes a new one; ${READ}`,
  );
}

async function checkAddresses(
  { tenant }: EndpointsQuestion,
  service: Service,
  slice: EndpointSlice,
  report: Report,
): Promise<void> {
  const ranges = await tenant.api.list(serviceCidrs, {});
  const cidrs = [
    ...(ranges.ok ? ranges.value.items.flatMap(({ spec }) => spec?.cidrs ?? []) : []),
    ...(service.spec?.clusterIPs ?? []).map(ip => `${ip}/${ip.includes(':') ? 128 : 32}`),
  ];
  for (const address of new Set(addressesOf(slice))) {
    const parsed = serviceEndpoint(address, 1);
    if ('refused' in parsed) {
      const text = `EndpointSlice default/kubernetes has ${address}, which is ${parsed.refused}`;
      const fix = 'Advertise an address of the node or of the pod: --advertise of the agent';
      report.fail('tenant', 'EndpointUnreachable', text, fix);
    } else if (cidrs.some(cidr => isWithin(address, cidr))) {
      const text = `EndpointSlice default/kubernetes has ${address}, a ClusterIP, which kube-proxy does not support as an endpoint`;
      const fix =
        'Advertise an address of the node or of the pod; Steward before its fix wrote the ClusterIP of its proxy';
      report.fail('tenant', 'EndpointIsClusterIp', text, fix);
    }
  }
}

/** Only where the agents are Pods: those on nodes outside are not seen. */
function checkAgents({ agents }: EndpointsQuestion, slice: EndpointSlice, report: Report): void {
  if (agents === undefined || agents.length === 0) return;
  const running = new Set(
    endpointsOfPods(agents)
      .filter(({ family }) => family === slice.addressType)
      .map(({ address }) => address),
  );
  const listed = addressesOf(slice);
  const stale = listed.filter(address => !running.has(address));
  const missing = [...running].filter(address => !listed.includes(address));
  if (stale.length > 0) {
    const text = `EndpointSlice default/kubernetes has ${stale.slice(0, 4).join(', ')}, where no agent runs: some connections of pods fail`;
    const fix = `Any living agent removes it within a minute: see its log; ${READ}`;
    report.fail('tenant', 'EndpointStale', text, fix);
  }
  if (missing.length > 0) {
    const text = `EndpointSlice default/kubernetes lacks ${missing.slice(0, 4).join(', ')}, where an agent runs`;
    report.warn('tenant', 'EndpointIncomplete', text, `See the log of that agent; ${READ}`);
  }
}

function checkMirror(slice: EndpointSlice, { endpoints }: ExistingEndpoints, report: Report): void {
  if (endpoints === undefined || addressesOf(endpoints).length === 0) return;
  const fix = `Delete Endpoints default/kubernetes, so that the writer of the slice makes it again; ${READ}`;
  if (endpoints.metadata.labels?.[SKIP_MIRROR] !== 'true') {
    const text = `Endpoints default/kubernetes has no label ${SKIP_MIRROR}: "true", so that a second slice is made of it`;
    report.warn('tenant', 'SkipMirrorMissing', text, fix);
  }
  const own = new Set(addressesOf(slice));
  const others = addressesOf(endpoints).filter(address => !own.has(address));
  if (others.length > 0) {
    const text = `Endpoints default/kubernetes has ${others.slice(0, 4).join(', ')}, which the EndpointSlice does not: left from an earlier writer`;
    report.warn('tenant', 'EndpointsDiffer', text, fix);
  }
}

/** Only objects that Causeway wrote, from agents that run. */
function repairOf(
  { cluster, agents = [] }: EndpointsQuestion,
  service: Service,
  existing: ExistingEndpoints,
): Pick<TenantEndpointsFound, 'repair'> {
  const slice = existing.slices.get('kubernetes');
  const isManaged = slice?.metadata.labels?.[SLICE_MANAGER_LABEL] === MANAGER;
  const living = endpointsOfPods(agents);
  if (!isManaged || living.length === 0) return {};
  const desired = desiredEndpoints(cluster.id ?? cluster.name, familiesOf(service), living);
  return { repair: { existing, desired } };
}

function portOf({ ports }: EndpointSlice): number | undefined {
  return (ports?.find(({ name }) => name === 'https') ?? ports?.[0])?.port;
}
