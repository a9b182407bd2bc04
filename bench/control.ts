// `npm run bench:control`: the control side against a real API server. By default so many TenantControlPlanes are created
// while the gateway runs: how long until all are served, and what that costs. With `--kind services` that many annotated
// Services are there before. Then both start it cold, and make single changes.

import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
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
import { type Causeway, type LogLine, startCauseway } from '../testbed/start-causeway.ts';

const { values } = parseArgs({
  options: {
    clusters: { type: 'string', default: '1000' },
    kind: { type: 'string', default: 'kamaji' },
  },
});
const count = Number(values.clusters);
const isKamaji = values.kind === 'kamaji';
const say = (text: string) => process.stdout.write(`${text}\n`);
const NAMESPACE = 'default';
const AT_ONCE = 8;
const CHANGES = 20;
const ownAddress = Object.values(networkInterfaces())
  .flatMap(all => all ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
if (ownAddress === undefined) throw new Error('This machine has no address but loopback');
const HOST_ANNOTATION = isKamaji ? 'kamaji.clastix.io/ingress.domain' : 'causeway.dev/hosts';

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

if (isKamaji) await whileItRuns();
else await inParallel(count, index => createService(api, index));
await coldStart();

async function whileItRuns(): Promise<void> {
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
  say(`memory ${rssMiB(gateway)} MiB`);
  await until(async () => (await list(api)) === count);
  say(`all Ingresses are written after ${seconds(performance.now() - start)}`);
  const spent = (await calls(server)) - callsBefore - 3 * count;
  say(`${(spent / count).toFixed(1)} API calls per cluster, besides those that created it`);
}

async function coldStart(): Promise<void> {
  const start = performance.now();
  await using gateway = await startCauseway({ config });
  await untilServed(gateway, count);
  say(`a cold start serves all ${count} after ${seconds(performance.now() - start)}`);
  await sleep(5000);
  say(`memory ${rssMiB(gateway)} MiB`);
  const times: number[] = [];
  for (let index = 0; index < CHANGES; index++) {
    const host = { [HOST_ANNOTATION]: isKamaji ? `other-${index}.example` : `other-${index}.apps.example` };
    const resource: Resource<KubeObject> = isKamaji ? kamaji.resource : services;
    const before = Date.now();
    await api.merge(resource, NAMESPACE, 'tenant-0', { metadata: { annotations: host } });
    const answered = Date.now();
    // Not by asking the gateway, which would cost it more than the change.
    await sleep(1500);
    const at = ({ time }: LogLine) => Date.parse(String(time));
    const applied = gateway.lines().find(line => line.msg === 'applied' && at(line) >= before);
    if (applied === undefined) throw new Error(`Not served within 1.5 s`);
    times.push(at(applied) - answered);
  }
  times.sort((a, b) => a - b);
  const [median, worst] = [times[CHANGES / 2], times.at(-1)].map(time => Math.round(time ?? 0));
  say(
    `a change is served ${median} ms after the API server's answer (median of ${CHANGES}; worst ${worst} ms)`,
  );
}

/** As in examples: a Service without a selector, and its EndpointSlice. */
async function createService(to: KubeApi, index: number): Promise<void> {
  const name = `tenant-${index}`;
  const metadata = { name, namespace: NAMESPACE };
  const ports = [{ name: 'https', port: 443, protocol: 'TCP' }];
  await create(to, services, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...metadata, annotations: { [HOST_ANNOTATION]: `${name}.apps.example` } },
    spec: { ports },
  } as KubeObject);
  await createSlice(to, index, ports);
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
  const ports = ['kube-apiserver', 'konnectivity-server'].map((port, i) => ({
    name: port,
    port: i === 0 ? 6443 : 8132,
    protocol: 'TCP',
  }));
  await create(to, services, { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports } } as KubeObject);
  await createSlice(to, index, ports);
}

async function createSlice(to: KubeApi, index: number, ports: readonly object[]): Promise<void> {
  const name = `tenant-${index}`;
  await create(to, endpointSlices, {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: NAMESPACE, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    // Connections there are refused, so that health checks cost little.
    endpoints: [{ addresses: [ownAddress], conditions: { ready: true } }],
    ports: ports.map(port => ({ ...port, port: 1 })),
  } as KubeObject);
}

async function create<T extends KubeObject>(
  to: KubeApi,
  resource: Resource<T>,
  object: KubeObject,
): Promise<void> {
  const answer = await to.create(resource, object as T);
  if (!answer.ok) throw new Error(`Cannot create ${object.kind}: ${JSON.stringify(answer.fault)}`);
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

async function inParallel(total: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < total) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10);
}

function rssMiB({ program }: Causeway): number {
  const found = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${program.pid}/status`, 'latin1'));
  return Math.round(Number(found?.[1]) / 1024);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
