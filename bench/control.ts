// `npm run bench:control`: the control side against a real API server. By default so many TenantControlPlanes are created
// while the gateway runs: how long until all are served, and what that costs. With `--kind services` that many annotated
// Services are there before. Then both start it cold, and make single changes. `--kind mixed` has clusters of all systems
// and `--services` annotated Services (control/mixed-kinds.ts).

import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { KubeApi } from '../src/kube/kube-api.ts';
import { openKubeClient } from '../src/kube/kube-client.ts';
import type { KubeObject } from '../src/kube/kube-object.ts';
import { openKubeAccess } from '../src/kube/open-kube-access.ts';
import { endpointSlices, type Resource, services } from '../src/kube/resources.ts';
import { documentedTenant } from '../src/sources/tenant.samples.ts';
import { kamaji } from '../src/sources/tenant-control-plane.ts';
import { installDefinition } from '../testbed/install-definition.ts';
import { type ApiServer, startApiServer } from '../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../testbed/start-causeway.ts';
import {
  changeTimes,
  create,
  inParallel,
  memoryMiB,
  say,
  sayChangeTimes,
  seconds,
  sliceOf,
  tcpPorts,
  until,
} from './control/kube-bed.ts';
import { mixedClusters } from './control/mixed-kinds.ts';

const { values } = parseArgs({
  options: {
    clusters: { type: 'string', default: '1000' },
    services: { type: 'string', default: '10000' },
    kind: { type: 'string', default: 'kamaji' },
  },
});
const KINDS = ['kamaji', 'services', 'mixed'];
if (!KINDS.includes(values.kind))
  throw new Error(`--kind must be one of ${KINDS.join(', ')}: current value is ${values.kind}`);
const count = Number(values.clusters);
const isKamaji = values.kind === 'kamaji';
const NAMESPACE = 'default';
const CHANGES = 20;
const HOST_ANNOTATION = isKamaji ? 'kamaji.clastix.io/ingress.domain' : 'causeway.dev/hosts';

if (values.kind === 'mixed') await mixedClusters(count, Number(values.services));
else await oneKind();

async function oneKind(): Promise<void> {
  await using server = await startApiServer();
  await installDefinition(server, 'kamaji-tenantcontrolplanes', 'tenantcontrolplanes.kamaji.clastix.io');
  const kubeconfig = await server.kubeconfig();
  using api = openKubeClient({ access: await openKubeAccess({ kubeconfig }) });
  const source = isKamaji
    ? `kamaji: { kubeconfig: ${kubeconfig} }`
    : `services: { kubeconfig: ${kubeconfig}, domains: [example] }`;
  const config = `listen: ["127.0.0.1:0"]
sources: [{ ${source} }]
outputs: [${isKamaji ? '{ ingress: {} }' : ''}]
lease: { name: causeway, namespace: ${NAMESPACE} }
statusAnnotation: ${isKamaji}
`;
  if (isKamaji) await whileItRuns(server, api, config);
  else await inParallel(count, index => createService(api, index));
  await coldStart(api, config);
}

async function whileItRuns(server: ApiServer, api: KubeApi, config: string): Promise<void> {
  await using gateway = await startCauseway({ config });
  const callsBefore = await calls(server);
  const start = performance.now();
  let created = 0;
  let served: Promise<number> | undefined;
  await inParallel(count, async index => {
    await createTenant(api, index);
    if (++created === count) served = untilServed(gateway, count);
  });
  const creating = performance.now() - start;
  const lag = await served;
  say(
    `${count} TenantControlPlanes, each with a Service and an EndpointSlice, created in ${seconds(creating)}`,
  );
  say(`the last one is served ${Math.round(lag ?? 0)} ms after it was created`);
  say(`memory ${memoryMiB(gateway).now} MiB`);
  await until(async () => (await list(api)) === count);
  say(`all Ingresses are written after ${seconds(performance.now() - start)}`);
  const spent = (await calls(server)) - callsBefore - 3 * count;
  say(`${(spent / count).toFixed(1)} API calls per cluster, besides those that created it`);
}

async function coldStart(api: KubeApi, config: string): Promise<void> {
  const start = performance.now();
  await using gateway = await startCauseway({ config });
  await untilServed(gateway, count);
  say(`a cold start serves all ${count} after ${seconds(performance.now() - start)}`);
  await sleep(5000);
  say(`memory ${memoryMiB(gateway).now} MiB`);
  const times = await changeTimes(gateway, CHANGES, index => {
    const host = { [HOST_ANNOTATION]: isKamaji ? `other-${index}.example` : `other-${index}.apps.example` };
    const resource: Resource<KubeObject> = isKamaji ? kamaji.resource : services;
    return api.merge(resource, NAMESPACE, 'tenant-0', { metadata: { annotations: host } });
  });
  sayChangeTimes(times);
}

/** As in examples: a Service without a selector, and its EndpointSlice. */
async function createService(to: KubeApi, index: number): Promise<void> {
  const name = `tenant-${index}`;
  const metadata = { name, namespace: NAMESPACE };
  const ports = tcpPorts({ https: 443 });
  await create(to, services, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...metadata, annotations: { [HOST_ANNOTATION]: `${name}.apps.example` } },
    spec: { ports },
  } as KubeObject);
  await create(to, endpointSlices, sliceOf(NAMESPACE, name, ports));
}

async function createTenant(to: KubeApi, index: number): Promise<void> {
  const name = `tenant-${index}`;
  const metadata = { name, namespace: NAMESPACE };
  const { status: _, ...tenant } = documentedTenant(NAMESPACE, name);
  const { annotations } = tenant.metadata;
  await create(to, kamaji.resource, {
    ...tenant,
    metadata: { ...metadata, ...(annotations && { annotations }) },
  });
  const ports = tcpPorts({ 'kube-apiserver': 6443, 'konnectivity-server': 8132 });
  await create(to, services, { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports } } as KubeObject);
  await create(to, endpointSlices, sliceOf(NAMESPACE, name, ports));
}

/** Resolves to the time it took. */
async function untilServed(gateway: Causeway, wanted: number): Promise<number> {
  const start = performance.now();
  await until(async () => {
    const { counts } = (await gateway.status()) as { counts: { clusters: number } };
    return counts.clusters === wanted;
  });
  return performance.now() - start;
}

async function list(from: KubeApi): Promise<number> {
  const resource = { group: 'networking.k8s.io', version: 'v1', plural: 'ingresses', kind: 'Ingress' };
  const answer = await from.list(resource, { keep: () => 1 });
  return answer.ok ? answer.value.items.length : 0;
}

/** Requests that the API server has answered; watches count when they end. */
async function calls(of: ApiServer): Promise<number> {
  const text = await of.kubectl('get', '--raw', '/metrics');
  let sum = 0;
  for (const line of text.split('\n'))
    if (line.startsWith('apiserver_request_total{')) sum += Number(line.slice(line.lastIndexOf(' ') + 1));
  return sum;
}
