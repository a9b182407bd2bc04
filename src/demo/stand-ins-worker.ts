// The thread for everything that is not Causeway itself: the clusters' servers and the demo's own traffic. stand-ins.ts
// starts and controls it; `terminate()` ends it with all its sockets.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { ClusterCertificates } from './cluster-certificates.ts';
import type { DemoCluster } from './demo-clusters.ts';
import { startIngress } from './ingress-server.ts';
import { startKonnectivity } from './konnectivity-server.ts';
import { ApiServer } from './kubernetes/api-server.ts';
import { smallCluster } from './kubernetes/small-cluster.ts';
import { type Place, placeOf } from './place.ts';
import { startTraffic } from './traffic.ts';

export interface StandInsData {
  readonly clusters: readonly { readonly cluster: DemoCluster; readonly certificates: ClusterCertificates }[];
  /** The interval between steps: a new pod, or the next state of one. */
  readonly stepMs: number;
}

/** The ports of a cluster's servers, all on 127.0.0.1. */
export interface ClusterPorts {
  readonly api: readonly number[];
  readonly konnectivity: number;
  readonly https: number;
  readonly http: number;
}

export type Order =
  | { readonly op: 'start-traffic'; readonly gateway: Place; readonly agents: readonly Place[] }
  | { readonly op: 'stop-api'; readonly cluster: string; readonly index: number }
  | { readonly op: 'start-api'; readonly cluster: string; readonly index: number };

export interface Answer {
  /** The id of the order; 0 for the first message, which has the ports. */
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

class StandInCluster {
  readonly cluster: DemoCluster;
  readonly certificates: ClusterCertificates;
  readonly #state;
  readonly #servers: (ApiServer | undefined)[] = [];
  readonly #ports: number[] = [];

  constructor(cluster: DemoCluster, certificates: ClusterCertificates, stepMs: number) {
    this.cluster = cluster;
    this.certificates = certificates;
    const { state, step } = smallCluster(cluster, Date.now());
    this.#state = state;
    step(Date.now());
    setInterval(() => step(Date.now()), stepMs);
  }

  async start(): Promise<ClusterPorts> {
    const { cluster, certificates } = this;
    for (const index of cluster.controlPlanes.keys()) await this.startApi(index);
    return {
      api: this.#ports,
      konnectivity: placeOf(await startKonnectivity(cluster, certificates.controlPlane)).port,
      https: placeOf(await startIngress(cluster, certificates.ingress)).port,
      http: placeOf(await startIngress(cluster, undefined)).port,
    };
  }

  /** On its previous port, if it had one. */
  async startApi(index: number): Promise<void> {
    if (this.#servers[index] !== undefined) return;
    const server = await ApiServer.start({
      cluster: this.cluster.name,
      node: this.cluster.controlPlanes[index],
      state: this.#state,
      certificates: this.certificates,
      port: this.#ports[index] ?? 0,
    });
    this.#servers[index] = server;
    this.#ports[index] = server.port;
  }

  async stopApi(index: number): Promise<void> {
    await this.#servers[index]?.[Symbol.asyncDispose]();
    this.#servers[index] = undefined;
  }
}

const port = parentPort as MessagePort;
const data = workerData as StandInsData;
const clusters = data.clusters.map(
  ({ cluster, certificates }) => new StandInCluster(cluster, certificates, data.stepMs),
);

port.postMessage({ id: 0, value: await Promise.all(clusters.map(one => one.start())) } satisfies Answer);

port.on('message', async ({ id, order }: { readonly id: number; readonly order: Order }) => {
  try {
    port.postMessage({ id, value: await carryOut(order) } satisfies Answer);
  } catch (error) {
    port.postMessage({ id, error: String(error) } satisfies Answer);
  }
});

async function carryOut(order: Order): Promise<unknown> {
  switch (order.op) {
    case 'start-traffic':
      return startTraffic(
        order.gateway,
        clusters.map(({ cluster, certificates }, index) => ({
          cluster,
          certificates,
          agent: order.agents[index],
        })),
      );
    case 'stop-api':
      return find(order.cluster).stopApi(order.index);
    case 'start-api':
      return find(order.cluster).startApi(order.index);
  }
}

function find(name: string): StandInCluster {
  const found = clusters.find(({ cluster }) => cluster.name === name);
  if (found === undefined) throw new Error(`Unknown cluster '${name}'`);
  return found;
}
