// Starts a cluster's agent as `causeway agent` would: from the same flags, with the same workers and uplinks, but in
// the demo's process. Its clients send no server name, like pods that dial `kubernetes.default.svc`.

import type { Logger } from 'pino';
import { Agent, type AgentHost } from '../agent/agent.ts';
import { type AgentFlags, readAgentOptions } from '../agent/agent-options.ts';
import type { UplinkKind } from '../cluster/cluster.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { type DemoCluster, TUNNEL_HOST } from './demo-clusters.ts';
import { clusterFiles, identityFiles } from './demo-files.ts';
import type { DemoFolder } from './demo-folder.ts';
import { LOOPBACK, type Place } from './place.ts';

export interface DemoAgentOptions {
  readonly cluster: DemoCluster;
  readonly uplink: UplinkKind;
  /** The cluster whose key signs the id; undefined means unsigned. */
  readonly signer: DemoCluster | undefined;
  readonly gateway: Place;
  /** The preferred port; if it is taken, any other. */
  readonly port: number;
  readonly folder: DemoFolder;
  readonly log: Logger;
  readonly host: AgentHost;
}

export interface DemoAgent extends AsyncDisposable {
  readonly place: Place;
}

/** A demo agent carries little traffic: one worker, and this many descriptors. */
const OPEN_FILES = 4096;

/** Serves when it returns, on the cluster's own address if the system allows it. */
export async function startDemoAgent(options: DemoAgentOptions): Promise<DemoAgent> {
  const { cluster, port, uplink } = options;
  const log = options.log.child({ agent: cluster.name, uplink });
  const host = { ...options.host, cores: 1, openFiles: Math.min(options.host.openFiles, OPEN_FILES) };
  const places = [
    `${cluster.agentAddress}:${port}`,
    `${cluster.agentAddress}:0`,
    // Not every system treats all of 127.0.0.0/8 as local.
    `${LOOPBACK}:0`,
  ];
  let failure: unknown;
  for (const on of places) {
    const read = readAgentOptions({ ...agentFlags(options), on });
    if (!read.ok) throw new Error(read.mistakes.join('; '));
    try {
      const agent = await Agent.start(read.options, host, log);
      const [{ address }] = agent.status().listeners;
      log.info({ listen: [address] }, 'ready');
      return { place: placeAt(address), [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
    } catch (error) {
      if (!(error instanceof ListenError)) throw error;
      failure = error;
    }
  }
  throw failure;
}

function agentFlags({ cluster, uplink, signer, gateway, folder }: DemoAgentOptions): AgentFlags {
  return {
    'cluster-id': cluster.id,
    gateway: `${gateway.host}:${gateway.port}`,
    uplink,
    ...(signer !== undefined && { 'key-file': folder.file(clusterFiles.agentKey(signer)) }),
    ...(uplink === 'tunnel' && {
      'server-name': TUNNEL_HOST,
      'ca-file': folder.file(identityFiles.tunnelCa),
    }),
    ...(uplink === 'terminate' && {
      'server-name': cluster.apiHost,
      'ca-file': folder.file(clusterFiles.ca(cluster)),
      'cert-file': folder.file(clusterFiles.apiServerCertificate(cluster)),
      'cert-key-file': folder.file(clusterFiles.apiServerKey(cluster)),
    }),
  };
}

function placeAt(address: string): Place {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}
