// The whole demo: three clusters of stand-ins in their own thread, in front of them the gateway, started as `run` does
// from the file in ./demo-out, and one agent per cluster, started as `agent` does. The command (cli/show-demo.ts)
// prints and ends it; the proofs test it.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { UplinkKind } from '../cluster/cluster.ts';
import { DEFAULT_ADMIN, type LogSettings } from '../config/config.ts';
import { ConfigReader } from '../config/config-reader.ts';
import { Controller, type ControllerOptions } from '../controller/controller.ts';
import { loadConfig } from '../controller/load-config.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { causewayYaml, type DemoFile, guestYaml } from './causeway-yaml.ts';
import { type ClusterCertificates, makeClusterCertificates } from './cluster-certificates.ts';
import { type DemoAgent, type DemoAgentOptions, startDemoAgent } from './demo-agent.ts';
import { type DemoCluster, demoClusters } from './demo-clusters.ts';
import {
  AGENTS_LOG_FILE,
  CLUSTERS_FOLDER,
  CONFIG_FILE,
  clusterFiles,
  GUEST_FILE,
  LOG_FILE,
} from './demo-files.ts';
import type { DemoFolder } from './demo-folder.ts';
import { kubeconfig } from './kubeconfig.ts';
import { LOOPBACK, type Place } from './place.ts';
import { StandIns } from './stand-ins.ts';
import { writeIdentity } from './write-identity.ts';

export interface DemoOptions {
  readonly folder: DemoFolder;
  /** 0 means any free port. */
  readonly port: number;
  /** `usual` is the default of `run`, or any free port if it is taken. */
  readonly adminPort: 'usual' | 'any';
  /** The interval between two changes in a cluster. */
  readonly stepMs: number;
  readonly openLog: (settings: LogSettings, file: string) => Logger;
  readonly version: string;
  readonly host: ControllerOptions['host'];
}

/** A cluster of the demo with everything needed to reach it. */
export interface DemoTenant {
  readonly cluster: DemoCluster;
  readonly certificates: ClusterCertificates;
  /** Where its agent listens. */
  readonly agent: Place;
}

/** For the gateway and the agents. */
const DEFAULT_LOG: LogSettings = { level: 'info', format: 'auto', connections: 'all' };

export class Demo implements AsyncDisposable {
  readonly gateway: Place;
  readonly adminUrl: string;
  readonly tenants: readonly DemoTenant[];
  readonly standIns: StandIns;
  readonly folder: DemoFolder;
  readonly #options: DemoOptions;
  readonly #agentLog: Logger;
  readonly #file: DemoFile;
  readonly #parts: AsyncDisposableStack;

  private constructor(
    options: DemoOptions,
    parts: AsyncDisposableStack,
    made: Pick<Demo, 'gateway' | 'adminUrl' | 'tenants' | 'standIns'>,
    file: DemoFile,
    agentLog: Logger,
  ) {
    this.folder = options.folder;
    this.gateway = made.gateway;
    this.adminUrl = made.adminUrl;
    this.tenants = made.tenants;
    this.standIns = made.standIns;
    this.#options = options;
    this.#agentLog = agentLog;
    this.#file = file;
    this.#parts = parts;
  }

  /** Serves when it returns. Throws a ListenError if a port is taken. */
  static async start(options: DemoOptions): Promise<Demo> {
    const { folder, port } = options;
    const clusters = await Promise.all(
      demoClusters.map(async cluster => ({ cluster, certificates: await makeClusterCertificates(cluster) })),
    );
    await writeIdentity(folder);
    mkdirSync(folder.reserve(CLUSTERS_FOLDER));
    // Disposed in reverse order: agents, gateway, clusters.
    await using started = new AsyncDisposableStack();
    const { standIns, ports } = await StandIns.start({ clusters, stepMs: options.stepMs });
    started.use(standIns);
    const { controller, file } = await startGateway(options, {
      port,
      adminPort: options.adminPort === 'usual' ? DEFAULT_ADMIN.port : 0,
      clusters: demoClusters.map((cluster, index) => ({ cluster, ports: ports[index] })),
    });
    started.use(controller);
    const gateway = { host: LOOPBACK, port: portOf(controller.view.status().listeners[0].address) };
    for (const { cluster, certificates } of clusters)
      writeClusterFiles(folder, cluster, certificates, gateway);
    const agentLog = options.openLog(DEFAULT_LOG, folder.reserve(AGENTS_LOG_FILE));
    const starting = await Promise.allSettled(
      demoClusters.map(async cluster => {
        const { uplink, isSigned } = cluster;
        const signer = isSigned ? cluster : undefined;
        const asked = { cluster, uplink, signer, gateway, port: gateway.port };
        return started.use(await startAgent(options, agentLog, asked)).place;
      }),
    );
    const tenants = clusters.map((one, index) => {
      const outcome = starting[index];
      if (outcome.status === 'rejected') throw outcome.reason;
      const agent = outcome.value;
      const text = kubeconfig(one.cluster, one.certificates, agent);
      folder.write(clusterFiles.agentKubeconfig(one.cluster), text);
      return { ...one, agent };
    });
    const made = { gateway, adminUrl: controller.adminUrl ?? '', tenants, standIns };
    // From here on the Demo owns them.
    return new Demo(options, started.move(), made, file, agentLog);
  }

  /** Starts another agent of the cluster on any free port; it signs with the key of `signer`, if given. */
  openAgent(cluster: DemoCluster, uplink: UplinkKind, signer: DemoCluster | undefined): Promise<DemoAgent> {
    return startAgent(this.#options, this.#agentLog, {
      cluster,
      uplink,
      signer,
      gateway: this.gateway,
      port: 0,
    });
  }

  /** Rewrites the file; the gateway treats it like any edit. */
  edit(change: Pick<DemoFile, 'alias' | 'redirect'>): void {
    this.folder.write(CONFIG_FILE, causewayYaml({ ...this.#file, ...change }));
  }

  /** A fourth cluster comes, as a file of its own, or goes. */
  setGuest(isThere: boolean): void {
    const path = join(this.folder.file(CLUSTERS_FOLDER), GUEST_FILE);
    if (isThere) writeFileSync(path, guestYaml(this.#file));
    else rmSync(path, { force: true });
  }

  async startTraffic(): Promise<void> {
    await this.standIns.startTraffic(
      this.gateway,
      this.tenants.map(({ agent }) => agent),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

function startAgent(
  { folder, version, host }: DemoOptions,
  log: Logger,
  asked: Pick<DemoAgentOptions, 'cluster' | 'uplink' | 'signer' | 'gateway' | 'port'>,
): Promise<DemoAgent> {
  return startDemoAgent({ ...asked, folder, log, host: { ...host, version, identity: 'demo' } });
}

/** Returns the file as served: with another admin port if the default one is taken. */
async function startGateway(
  options: DemoOptions,
  wanted: DemoFile,
): Promise<{ readonly controller: Controller; readonly file: DemoFile }> {
  const { folder, openLog, version, host } = options;
  const log = openLog(DEFAULT_LOG, folder.reserve(LOG_FILE));
  const start = async (file: DemoFile) => {
    const path = folder.write(CONFIG_FILE, causewayYaml(file));
    const readAt = Date.now();
    const reader = new ConfigReader(path);
    const { config } = await loadConfig(path, {}, reader);
    const controller = await Controller.start({
      file: path,
      config,
      readAt,
      overrides: {},
      reader,
      log,
      version,
      host,
    });
    return { controller, file };
  };
  try {
    return await start(wanted);
  } catch (error) {
    const isTaken = error instanceof ListenError && error.on.endsWith('(admin.on)');
    if (!isTaken || wanted.adminPort === 0) throw error;
    return start({ ...wanted, adminPort: 0 });
  }
}

function writeClusterFiles(
  folder: DemoFolder,
  cluster: DemoCluster,
  certificates: ClusterCertificates,
  gateway: Place,
): void {
  folder.write(clusterFiles.ca(cluster), certificates.ca);
  folder.write(clusterFiles.kubeconfig(cluster), kubeconfig(cluster, certificates, gateway, cluster.apiHost));
  folder.write(clusterFiles.clientCertificate(cluster), certificates.client.cert);
  folder.write(clusterFiles.clientKey(cluster), certificates.client.key);
  folder.write(clusterFiles.token(cluster), certificates.token);
  folder.write(clusterFiles.apiServerCertificate(cluster), certificates.controlPlane.cert);
  folder.write(clusterFiles.apiServerKey(cluster), certificates.controlPlane.key);
}

function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1));
}
