// `causeway doctor`: reads the file, lists the clusters, finds the gateway, and walks the way to each cluster, several
// at a time. Results come in the order of the file, whatever answered first.

import { dirname, resolve } from 'node:path';
import type { Cluster } from '../cluster/cluster.ts';
import type { Config } from '../config/config.ts';
import { formatMistake } from '../config/mistake.ts';
import { readConfigFile } from '../config/read-config-file.ts';
import { listenersOf } from '../controller/listeners.ts';
import type { Lookup } from '../dns/check-hosts.ts';
import { Explainer } from '../gateway/table/explain.ts';
import { clusterKey } from '../identity/cluster-key.ts';
import { readSecretFile } from '../identity/secret-file.ts';
import type { Clock } from '../kube/clock.ts';
import { KubeServers } from '../kube/kube-servers.ts';
import { type Diagnosis, Report } from './check.ts';
import { checkConfig, checkRunning, reportMistakes } from './check-config.ts';
import { checkFindings } from './check-findings.ts';
import { checkHaproxy } from './check-haproxy.ts';
import { checkSettings } from './check-settings.ts';
import { checkSharedCertificates } from './check-shared-certificates.ts';
import { checkTcp } from './check-tcp.ts';
import { checkLargeHello } from './check-tls.ts';
import { type ExaminedCluster, examineCluster } from './examine-cluster.ts';
import { findPlaces } from './gateway-places.ts';
import { chooseTenant, managementOf, type TenantFor, tenantOf, unusableKubeconfigs } from './kubeconfigs.ts';
import { generalFindings, type ListedClusters, listClusters } from './list-clusters.ts';
import type { Address, Network } from './network.ts';
import { type Repair, repairObject } from './repair.ts';
import { type AskAdmin, askRunning } from './running-gateway.ts';
import { apiHostOf, inParallel, type World } from './world.ts';

/** Clusters at once: most of the time is spent waiting, up to two seconds where no backend answers the gateway. */
const AT_ONCE = 32;

export interface DoctorOptions {
  readonly file: string;
  /** Only this one. */
  readonly cluster?: string | undefined;
  readonly address?: Address | undefined;
  readonly kubeconfig?: string | undefined;
  readonly tenantKubeconfig?: string | undefined;
  readonly network: Network;
  readonly lookup: Lookup;
  readonly clock: Clock;
  /** The admin API of the gateway that serves this file. */
  readonly adminOf: (config: Config) => AskAdmin | undefined;
  /** Of a pod: where its API server is. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly uid: number | undefined;
  /** The configuration of a HAProxy on this machine, where there is one. */
  readonly haproxy?: { readonly file: string; readonly text: string } | undefined;
  readonly onProgress?: (done: number, all: number) => void;
}

export type Outcome =
  | { readonly kind: 'diagnosis'; readonly diagnosis: Diagnosis; readonly repairs: readonly Repair[] }
  /** Nothing could be checked; one sentence each. */
  | { readonly kind: 'impossible'; readonly sentences: readonly string[] };

/** The connections behind the repairs stay open until it is disposed of. */
export async function diagnose(options: DoctorOptions, resources: DisposableStack): Promise<Outcome> {
  const { file } = options;
  const read = await readConfigFile(file);
  if (!read.ok && 'code' in read) {
    return { kind: 'impossible', sentences: read.mistakes.map(mistake => formatMistake(file, mistake)) };
  }
  const general = new Report(null);
  if (!read.ok) {
    reportMistakes(file, read.mistakes, general);
    general.skip('dns', 'the file is not valid, and nothing else was checked');
    return done(general, [], []);
  }
  const { config } = read;
  await checkConfig({ file, ...read }, options.uid, general);
  if (general.hasFailed('config')) {
    general.skip('dns', 'the file cannot be served, and nothing else was checked');
    return done(general, [], []);
  }
  const servers = resources.use(new KubeServers({ folder: dirname(file), environment: options.environment }));
  const { kubeconfig, clock } = options;
  const unusable = await unusableKubeconfigs(options);
  if (unusable.length > 0) return { kind: 'impossible', sentences: unusable };
  const absolute = kubeconfig === undefined ? undefined : resolve(kubeconfig);
  const listed = await listClusters({ file, config, servers, kubeconfig: absolute, clock }, general);
  const { plan } = listed;
  const chosen =
    options.cluster === undefined
      ? plan.clusters
      : plan.clusters.filter(({ name }) => name === options.cluster);
  if (options.cluster !== undefined && chosen.length === 0) {
    return { kind: 'impossible', sentences: [unknownCluster(options.cluster, plan.clusters)] };
  }
  const tenantFor = await chooseTenant(options, chosen);
  if (typeof tenantFor === 'string') return { kind: 'impossible', sentences: [tenantFor] };
  const { clusters, routes, hosts } = plan.counts;
  const counts = `${count(clusters, 'cluster')}, ${count(routes, 'route')}, ${count(hosts, 'host')}`;
  if (!general.hasFailed('config')) general.ok('config', `${file}: ${counts}`);
  checkSettings({ ...config, clusters: plan.clusters }, general);
  if (options.haproxy !== undefined) checkHaproxy(options.haproxy.file, options.haproxy.text, general);
  checkFindings(options.cluster === undefined ? generalFindings(plan) : [], general);
  return examine(options, { config, listed, chosen, servers, tenantFor, general }, resources);
}

interface Given {
  readonly config: Config;
  readonly listed: ListedClusters;
  readonly chosen: readonly Cluster[];
  readonly servers: KubeServers;
  readonly tenantFor: TenantFor;
  readonly general: Report;
}

async function examine(options: DoctorOptions, given: Given, resources: DisposableStack): Promise<Outcome> {
  const { network, clock, lookup } = options;
  const { config, listed, chosen, general } = given;
  const { plan } = listed;
  const running = await askRunning(config, options.adminOf(config));
  checkRunning(running, general);
  const places = await findPlaces({
    config,
    given: options.address,
    running,
    network,
    named: () => firstAddress(chosen, lookup),
  });
  if (places.all.length === 0)
    general.skip('tcp', 'the port of the gateway is not known (port 0): give --address IP:PORT');
  const reached = await checkTcp(places, network, general);
  const tenancy = { ...options, ...given };
  const world: World = {
    config,
    network,
    lookup,
    now: () => clock.date().getTime(),
    places,
    explainer: new Explainer(plan.clusters, listenersOf(config), { tunnelHosts: config.tunnel?.hosts ?? [] }),
    running,
    management: managementOf(tenancy),
    tenant: tenantOf(tenancy, places, clock, resources),
    keyOf: await keysOf(options.file, config),
  };
  const byCluster = Map.groupBy(plan.findings, ({ cluster }) => cluster);
  let finished = 0;
  options.onProgress?.(0, chosen.length);
  const examined = await inParallel(chosen, AT_ONCE, async cluster => {
    const findings = byCluster.get(cluster.name) ?? [];
    const one = await examineCluster({ cluster, findings, reached, clock }, world);
    options.onProgress?.(++finished, chosen.length);
    return one;
  });
  const seen = examined.flatMap(one =>
    one.seen.flatMap(route => {
      const place = places.placeOf(route.route);
      return place === undefined ? [] : [{ ...route, place }];
    }),
  );
  await checkLargeHello(seen, network, general);
  for (const check of checkSharedCertificates(
    examined.map(({ cluster, seen }) => ({ name: cluster.name, seen })),
  )) {
    examined.find(({ cluster }) => cluster.name === check.cluster)?.report.checks.push(check);
  }
  return done(general, examined, repairsOf(given, world, examined));
}

function count(amount: number, what: string): string {
  return `${amount} ${what}${amount === 1 ? '' : 's'}`;
}

function done(general: Report, examined: readonly ExaminedCluster[], repairs: readonly Repair[]): Outcome {
  const reports = [general, ...examined.map(({ report }) => report)];
  return {
    kind: 'diagnosis',
    diagnosis: {
      checks: reports.flatMap(({ checks }) => checks),
      notChecked: reports.flatMap(({ notChecked }) => notChecked),
    },
    repairs,
  };
}

function unknownCluster(name: string, clusters: readonly Cluster[]): string {
  const names = clusters.map(cluster => `'${cluster.name}'`);
  const known =
    names.length === 0
      ? 'there are none'
      : `there are ${names.slice(0, 10).join(', ')}${names.length > 10 ? ', …' : ''}`;
  return `There is no cluster '${name}'; ${known}`;
}

async function firstAddress(clusters: readonly Cluster[], lookup: Lookup): Promise<string | undefined> {
  for (const host of clusters.flatMap(cluster => apiHostOf(cluster) ?? []).slice(0, 3)) {
    for (const type of ['A', 'AAAA'] as const) {
      const [address] = (await lookup(host, type)).addresses;
      if (address !== undefined) return address;
    }
  }
  return undefined;
}

async function keysOf(file: string, { identity }: Config): Promise<World['keyOf']> {
  if (identity === undefined) return undefined;
  const read = await readSecretFile(resolve(dirname(file), identity.secretFile));
  if (!read.ok) return undefined;
  const [secret] = read.secrets;
  return id => Buffer.from(clusterKey(secret, id)).toString('base64url');
}

function repairsOf({ listed }: Given, world: World, examined: readonly ExaminedCluster[]): readonly Repair[] {
  const chosen = new Set(examined.map(({ cluster }) => cluster.name));
  const ofObjects = listed.fixes
    .filter(({ cluster }) => chosen.has(cluster.name))
    .flatMap(fix => {
      const api = world.management(fix.cluster);
      return (api && repairObject(fix, api)) ?? [];
    });
  return [...ofObjects, ...examined.flatMap(({ repairs }) => repairs)];
}
