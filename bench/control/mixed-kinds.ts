// `npm run bench:control -- --kind mixed`: clusters of six systems in equal parts, and annotated Services, in one real API
// server with the real CustomResourceDefinitions. The gateway has all sources, two outputs, and the rights that
// `render rbac` prints. All user clusters of Kubermatic are one second API server, with a watch on Nodes for each.

import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeApi } from '../../src/kube/kube-api.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { accountToken, addAccount, grantRights } from '../../test/kube/grant-rights.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { cpuSeconds } from '../process-usage.ts';
import { AuditCalls, describeCalls } from './audit-calls.ts';
import {
  changeTimes,
  create,
  inParallel,
  loggedAt,
  memoryMiB,
  say,
  sayChangeTimes,
  seconds,
} from './kube-bed.ts';
import { annotatedServices, type Made, type MixedKind, mixedKinds } from './mixed-objects.ts';

const ACCOUNT = 'system:serviceaccount:causeway-system:causeway';
const DNS_ENDPOINTS = ['external-dns-dnsendpoints', 'dnsendpoints.externaldns.k8s.io'] as const;
const CHANGES = 50;
const NODES = 3;
const SERVED_MS = 600_000;
/** Without a write for so long: everything is written. */
const QUIET_MS = 15_000;
const REST_MS = 60_000;

interface Bed {
  readonly config: string;
  readonly api: KubeApi;
  readonly users: ApiServer;
  readonly calls: AuditCalls;
  readonly clusters: number;
  readonly services: number;
}

export async function mixedClusters(clusters: number, services: number): Promise<void> {
  await using dir = await tempDir();
  const [calls, flags] = await AuditCalls.prepare(dir, ACCOUNT);
  await using server = await startApiServer({ flags });
  await using users = await startApiServer();
  for (let i = 1; i <= NODES; i++) await users.addNode(`node-${i}`, `10.1.0.${i}`);
  const definitions = [...mixedKinds.flatMap(kind => kind.definitions), DNS_ENDPOINTS];
  for (const [file, resource] of definitions) await installDefinition(server, file, resource);
  await addAccount(server);

  const file = dir.file('kubeconfig');
  await writeFile(file, '');
  const config = configOf(file);
  await grantRights(server, config);
  const { url, caFile } = server;
  await writeFile(
    file,
    await kubeconfig({ server: url, caFile, user: { token: await accountToken(server) } }),
  );

  using api = openKubeClient({ access: await openKubeAccess({ kubeconfig: await server.kubeconfig() }) });
  const userKubeconfig = await readFile(await users.kubeconfig(), 'utf8');
  const start = performance.now();
  for (const { common } of [...mixedKinds, annotatedServices]) await createAll(api, common);
  await inParallel(clusters, index => createAll(api, kindAt(index).objects(nameAt(index), userKubeconfig)));
  await inParallel(services, index => createAll(api, annotatedServices.objects(nameAt(index), '')));
  say(
    `${clusters} clusters of ${mixedKinds.length} kinds and ${services} Services created in ${seconds(performance.now() - start)}`,
  );
  const bed: Bed = { config, api, users, calls, clusters, services };
  say('\nfirst start, with nothing written yet:');
  await firstStart(bed);
  say('\nsecond start, with everything written:');
  await secondStart(bed);
}

async function firstStart(bed: Bed): Promise<void> {
  const { api, users, calls, clusters, services } = bed;
  const start = Date.now();
  await using gateway = await startCauseway({ config: bed.config });
  await untilServed(bed, gateway, start);
  await untilWritten(bed, gateway, start);
  const watches = await metric(users, /^apiserver_longrunning_requests\{.*resource="nodes".*verb="WATCH"/);
  say(`watches on Nodes held open: ${watches}`);

  await calls.take();
  const cpu = await cpuOf(gateway);
  await sleep(REST_MS);
  const rest = await calls.take();
  const used = (await cpuOf(gateway)) - cpu;
  say(
    `at rest for ${seconds(REST_MS)}: ${rest.writes} writes, CPU ${((used / REST_MS) * 1e6).toFixed(1)} ms/s`,
  );
  say(describeCalls(rest));

  const times = await changeTimes(gateway, CHANGES, async index => {
    const picked = Math.floor(Math.random() * (mixedKinds.length + 1));
    const kind: MixedKind = mixedKinds[picked] ?? annotatedServices;
    const name = nameAt(
      kind === annotatedServices
        ? Math.floor(Math.random() * services)
        : picked + mixedKinds.length * Math.floor(Math.random() * Math.floor(clusters / mixedKinds.length)),
    );
    const change = kind.change(name, `changed-${index}.example.com`);
    const answer = await api.merge(change.resource, change.namespace, change.name, change.patch);
    if (!answer.ok) throw new Error(`Cannot change ${kind.source} ${name}: ${answer.fault.message}`);
  });
  sayChangeTimes(times);
  const { now, peak } = memoryMiB(gateway);
  say(`memory ${now} MiB, at its peak ${peak} MiB`);
  const changed = await calls.take();
  say(`API calls for ${CHANGES} changes:\n${describeCalls(changed)}`);
  await sayFindings(gateway);
}

async function secondStart(bed: Bed): Promise<void> {
  const start = Date.now();
  await using gateway = await startCauseway({ config: bed.config });
  await untilServed(bed, gateway, start);
  await untilWritten(bed, gateway, start);
}

async function untilServed({ clusters, services }: Bed, gateway: Causeway, start: number): Promise<void> {
  const wanted = clusters + services;
  const line = await gateway.line(
    ({ msg, clusters: served }) => msg === 'applied' && served === wanted,
    SERVED_MS,
  );
  say(`all ${wanted} are served after ${seconds(loggedAt(line) - start)}`);
  say(`CPU until then ${(await cpuOf(gateway)).toFixed(1)} s`);
}

async function untilWritten({ calls }: Bed, gateway: Causeway, start: number): Promise<void> {
  const all: Awaited<ReturnType<AuditCalls['take']>>[] = [];
  let last: number | undefined;
  for (let quietSince = Date.now(); Date.now() - quietSince < QUIET_MS; ) {
    await sleep(1000);
    const taken = await calls.take();
    all.push(taken);
    const reads = [...taken.byKind].some(([kind]) => kind.startsWith('get ') && kind !== 'get leases');
    if (taken.writes > 0 || reads) quietSince = Date.now();
    last = taken.lastWriteAt ?? last;
  }
  const sum = summed(all);
  const when =
    last === undefined ? 'nothing was written' : `the last write came after ${seconds(last - start)}`;
  say(`${when}; CPU until then at most ${(await cpuOf(gateway)).toFixed(1)} s`);
  say(`API calls until then: ${sum.writes} writes besides the lease\n${describeCalls(sum)}`);
  const { now, peak } = memoryMiB(gateway);
  say(`memory ${now} MiB, at its peak ${peak} MiB`);
}

function summed(all: readonly Awaited<ReturnType<AuditCalls['take']>>[]) {
  const join = (maps: readonly ReadonlyMap<string, number>[]) => {
    const sum = new Map<string, number>();
    for (const map of maps) for (const [key, count] of map) sum.set(key, (sum.get(key) ?? 0) + count);
    return sum;
  };
  return {
    byKind: join(all.map(({ byKind }) => byKind)),
    refused: join(all.map(({ refused }) => refused)),
    writes: all.reduce((sum, { writes }) => sum + writes, 0),
    lastWriteAt: undefined,
  };
}

/** What is wrong with the bed itself would be measured, too. */
async function sayFindings(gateway: Causeway): Promise<void> {
  const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
  const all = (await answer.json()) as readonly { readonly findings: readonly { readonly code: string }[] }[];
  const found = all.flatMap(({ findings }) => findings);
  const counts = Map.groupBy(found, ({ code }) => code);
  say(`findings: ${[...counts].map(([code, each]) => `${code} ${each.length}`).join(', ') || 'none'}`);
}

function configOf(file: string): string {
  const sources = [...mixedKinds, annotatedServices].map(
    ({ source, options }) =>
      `  - ${source}: { kubeconfig: ${file}${options === undefined ? '' : `, ${options}`} }`,
  );
  return `listen: ["127.0.0.1:0"]
sources:
${sources.join('\n')}
outputs: [{ ingress: {} }, { dnsEndpoint: { zone: dns.example.com } }]
lease: { name: causeway, namespace: causeway-system }
`;
}

function kindAt(index: number): MixedKind {
  return mixedKinds[index % mixedKinds.length];
}

function nameAt(index: number): string {
  return `c${index}`;
}

async function createAll(api: KubeApi, all: readonly Made[]): Promise<void> {
  for (const { resource, object, status } of all) {
    await create(api, resource, object);
    if (status === undefined) continue;
    const { namespace, name } = object.metadata;
    const answer = await api.merge(resource, namespace, name, { status }, { subresource: 'status' });
    if (!answer.ok)
      throw new Error(`Cannot set the status of ${object.kind} ${name}: ${answer.fault.message}`);
  }
}

async function metric(server: ApiServer, pattern: RegExp): Promise<number> {
  const text = await server.kubectl('get', '--raw', '/metrics');
  const lines = text.split('\n').filter(line => pattern.test(line));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

function cpuOf({ program }: Causeway): Promise<number> {
  return cpuSeconds([program.pid]);
}
