// Stands in for the agent inside a cluster: what connects to it has no server name, as pods that dial
// `kubernetes.default.svc`, and goes to the gateway behind a PROXY v2 header with the cluster's id.

import { connect, createServer, type Server, type Socket } from 'node:net';
import { parseIp } from '../wire/ip-address.ts';
import { buildProxyV2, type Endpoint } from '../wire/proxy-protocol.ts';
import type { DemoCluster } from './demo-clusters.ts';
import { LOOPBACK, listenOn, type Place } from './place.ts';

/** As HyperShift's nodes send it, and the gateway reads it (`idTlv`). */
const ID_TLV = 0x20;

/** Takes the gateway's port on the cluster's own address, or what is free. */
export async function startAgent(cluster: DemoCluster, gateway: Place): Promise<Server> {
  const places: Place[] = [
    { host: cluster.agentAddress, port: gateway.port },
    { host: cluster.agentAddress, port: 0 },
    // Not every system takes all of 127.0.0.0/8 for its own.
    { host: LOOPBACK, port: 0 },
  ];
  let failure: unknown;
  for (const place of places) {
    const server = createServer({ allowHalfOpen: true }, socket => relay(socket, cluster.id, gateway));
    try {
      return await listenOn(server, place);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

function relay(client: Socket, id: string, { host, port }: Place): void {
  const gateway = connect({ host, port, allowHalfOpen: true });
  const header = buildProxyV2({
    source: endpoint(client.remoteAddress, client.remotePort),
    destination: endpoint(client.localAddress, client.localPort),
    tlvs: [{ type: ID_TLV, value: Buffer.from(id) }],
  });
  gateway.write(header);
  const cut = () => {
    client.destroy();
    gateway.destroy();
  };
  client.on('error', cut);
  gateway.on('error', cut);
  client.pipe(gateway);
  gateway.pipe(client);
}

function endpoint(address: string | undefined, port: number | undefined): Endpoint | undefined {
  const ip = parseIp(address ?? '');
  return ip === undefined ? undefined : { address: ip, port: port ?? 0 };
}
