// The demo as a whole: three clusters of stand-ins in a thread of their own, and in front of them the gateway, as `run`
// starts it, from the file in ./demo-out. The command (cli/demo.ts) prints and ends it; proofs.ts tries it.

import { createServer } from 'node:net';
import type { Logger } from 'pino';
import { DEFAULT_ADMIN, type LogSettings } from '../config/config.ts';
import { Controller, type ControllerOptions } from '../controller/controller.ts';
import { loadConfig } from '../controller/load-config.ts';
import { causewayYaml, type DemoFile } from './causeway-yaml.ts';
import { type ClusterCertificates, makeClusterCertificates } from './cluster-certificates.ts';
import { type DemoCluster, demoClusters } from './demo-clusters.ts';
import type { DemoFolder } from './demo-folder.ts';
import { kubeconfig } from './kubeconfig.ts';
import { LOOPBACK, type Place } from './place.ts';
import { StandIns } from './stand-ins.ts';

export interface DemoOptions {
  readonly folder: DemoFolder;
  /** 0 is any. */
  readonly port: number;
  /** `usual` is that of `run`, or any where it is taken. */
  readonly adminPort: 'usual' | 'any';
  /** Between two changes in a cluster. */
  readonly stepMs: number;
  readonly openLog: (settings: LogSettings, file: string) => Logger;
  readonly version: string;
  readonly host: ControllerOptions['host'];
}

/** A cluster of the demo with all that one needs to reach it. */
export interface DemoTenant {
  readonly cluster: DemoCluster;
  readonly certificates: ClusterCertificates;
  /** Where its agent listens. */
  readonly agent: Place;
}

/** The names of files in ./demo-out. */
export const CONFIG_FILE = 'causeway.yaml';
export const LOG_FILE = 'causeway.log';
export const clusterFiles = {
  ca: ({ name }: DemoCluster) => `${name}-ca.crt`,
  kubeconfig: ({ name }: DemoCluster) => `${name}.kubeconfig`,
  clientCertificate: ({ name }: DemoCluster) => `${name}-client.crt`,
  clientKey: ({ name }: DemoCluster) => `${name}-client.key`,
  token: ({ name }: DemoCluster) => `${name}.token`,
} as const;

export class Demo implements AsyncDisposable {
  readonly gateway: Place;
  readonly adminUrl: string;
  readonly tenants: readonly DemoTenant[];
  readonly standIns: StandIns;
  readonly folder: DemoFolder;
  readonly #file: DemoFile;
  readonly #controller: Controller;

  private constructor(
    { folder }: DemoOptions,
    controller: Controller,
    parts: Pick<Demo, 'gateway' | 'tenants' | 'standIns'> & { readonly file: DemoFile },
  ) {
    this.folder = folder;
    this.gateway = parts.gateway;
    this.adminUrl = controller.adminUrl ?? '';
    this.tenants = parts.tenants;
    this.standIns = parts.standIns;
    this.#file = parts.file;
    this.#controller = controller;
  }

  /** Serves when it returns. Throws a ListenError when a port is taken. */
  static async start(options: DemoOptions): Promise<Demo> {
    const { folder, port } = options;
    const clusters = await Promise.all(
      demoClusters.map(async cluster => ({ cluster, certificates: await makeClusterCertificates(cluster) })),
    );
    await using started = new AsyncDisposableStack();
    const { standIns, ports } = await StandIns.start({ clusters, stepMs: options.stepMs });
    started.use(standIns);
    const file: DemoFile = {
      port,
      adminPort: options.adminPort === 'usual' ? await usualOrAny(DEFAULT_ADMIN.port) : 0,
      clusters: demoClusters.map((cluster, index) => ({ cluster, ports: ports[index] })),
    };
    const controller = started.use(await startGateway(options, file));
    const gateway = { host: LOOPBACK, port: portOf(controller.status().listeners[0].address) };
    const agents = await standIns.openAgents(gateway);
    const tenants = clusters.map((one, index) => ({ ...one, agent: agents[index] }));
    for (const tenant of tenants) writeClusterFiles(folder, tenant, gateway);
    // From here on the demo itself ends them.
    started.move();
    return new Demo(options, controller, { gateway, tenants, standIns, file });
  }

  /** Writes the file anew; the gateway sees it as it sees any edit. */
  edit(change: Pick<DemoFile, 'alias' | 'redirect'>): void {
    this.folder.write(CONFIG_FILE, causewayYaml({ ...this.#file, ...change }));
  }

  async startTraffic(): Promise<void> {
    await this.standIns.startTraffic(
      this.gateway,
      this.tenants.map(({ agent }) => agent),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller[Symbol.asyncDispose]();
    await this.standIns[Symbol.asyncDispose]();
  }
}

async function startGateway(options: DemoOptions, content: DemoFile): Promise<Controller> {
  const { folder, openLog, version, host } = options;
  const file = folder.write(CONFIG_FILE, causewayYaml(content));
  const readAt = Date.now();
  const config = await loadConfig(file, {});
  const log = openLog(config.log, folder.reserve(LOG_FILE));
  return Controller.start({ file, config, readAt, overrides: {}, log, version, host });
}

function writeClusterFiles(folder: DemoFolder, { cluster, certificates }: DemoTenant, gateway: Place): void {
  folder.write(clusterFiles.ca(cluster), certificates.ca);
  folder.write(clusterFiles.kubeconfig(cluster), kubeconfig(cluster, certificates, gateway));
  folder.write(clusterFiles.clientCertificate(cluster), certificates.client.cert);
  folder.write(clusterFiles.clientKey(cluster), certificates.client.key);
  folder.write(clusterFiles.token(cluster), certificates.token);
}

/** That port, or 0 where somebody has it. */
function usualOrAny(port: number): Promise<number> {
  return new Promise(resolve => {
    const server = createServer();
    server.once('error', () => resolve(0));
    server.listen({ host: LOOPBACK, port, exclusive: true }, () => server.close(() => resolve(port)));
  });
}

function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1));
}
