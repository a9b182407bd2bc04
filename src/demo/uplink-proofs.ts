// Proofs of the tenant side: clients that name no server, as pods that dial `kubernetes.default.svc`, reach their own
// cluster through an agent, by each of the uplinks; and an id that is not proven is refused.

import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { UplinkKind } from '../cluster/cluster.ts';
import type { Demo, DemoTenant } from './demo.ts';
import { type TlsVisit, visitHttps } from './demo-client.ts';
import { type DemoCluster, TUNNEL_HOST } from './demo-clusters.ts';
import { AGENTS_LOG_FILE, clusterFiles } from './demo-files.ts';
import type { Kubectl } from './kubectl.ts';
import { expectNodes } from './operation-proofs.ts';
import type { Place } from './place.ts';
import { expect, type Proof } from './proof.ts';
import { expectUser, refusedHandshake } from './tls-proofs.ts';

const ACCESS_DENIED = 49;
const POLL_MS = 20;

/** What is on the wire between the agent and the gateway. */
const wires = {
  proxy: 'a PROXY header with the signed id',
  connect: 'CONNECT to the signed id',
  tunnel: `TLS to ${TUNNEL_HOST}, inside it the signed id`,
} as const;

export function uplinkProofs(demo: Demo, kubectl: Kubectl | undefined): Proof[] {
  const { tenants } = demo;
  const [, managed1, managed2] = tenants;
  return [
    ...tenants.map(withoutServerName),
    ...(['proxy', 'connect', 'tunnel'] as const).map(uplink => untouched(demo, managed1, uplink)),
    terminated(demo, managed1),
    unsigned(demo, managed1),
    forged(demo, managed1, managed2.cluster),
    ...(kubectl === undefined ? [] : [kubectlWithoutServerName(demo, kubectl, managed1)]),
  ];
}

function withoutServerName({ cluster, certificates, agent }: DemoTenant): Proof {
  return {
    title: `API of ${cluster.name} without a server name`,
    async prove(signal) {
      await expectToken(cluster, visitTo(agent, certificates, signal), certificates.token);
      const signed = cluster.isSigned ? 'signed id' : 'id not signed';
      return `its agent at ${agent.host}:${agent.port} by ${cluster.uplink}, ${signed}`;
    },
  };
}

/** The client's own TLS reaches the cluster, whatever it goes through. */
function untouched(demo: Demo, tenant: DemoTenant, uplink: keyof typeof wires): Proof {
  const { cluster, certificates } = tenant;
  return {
    title: `agent of ${cluster.name} by ${uplink}`,
    async prove(signal) {
      await using agent =
        uplink === cluster.uplink ? undefined : await demo.openAgent(cluster, uplink, cluster);
      const visit = visitTo(agent?.place ?? tenant.agent, certificates, signal);
      await expectToken(cluster, visit, certificates.token);
      await expectUser({ ...visit, client: certificates.client });
      return `${wires[uplink]}; token and client certificate work`;
    },
  };
}

function terminated(demo: Demo, { cluster, certificates }: DemoTenant): Proof {
  return {
    title: `agent of ${cluster.name} by terminate`,
    async prove(signal) {
      await using agent = await demo.openAgent(cluster, 'terminate', undefined);
      const visit = visitTo(agent.place, certificates, signal);
      await expectToken(cluster, visit, certificates.token);
      const { code } = await visitHttps({ ...visit, client: certificates.client, path: '/api/v1/nodes' });
      expect(code === 401, `with a client certificate the API server answered ${code}, not 401`);
      await logged(demo, 'client certificate lost', signal);
      return `a new TLS by server name; a token works, a client certificate cannot, and the log says so`;
    },
  };
}

function unsigned(demo: Demo, { cluster, certificates }: DemoTenant): Proof {
  return {
    title: 'an id that is not signed is refused',
    async prove(signal) {
      await refusedAgent(demo, cluster, 'proxy', undefined, certificates, signal);
      return `TLS alert ${ACCESS_DENIED}, access_denied: ${cluster.name} has identity: required`;
    },
  };
}

/** The key is a good one, of another cluster. */
function forged(demo: Demo, { cluster, certificates }: DemoTenant, other: DemoCluster): Proof {
  return {
    title: 'a forged id is refused',
    async prove(signal) {
      const before = await badSignatures(demo, signal);
      const uplinks = ['proxy', 'tunnel'] as const;
      for (const uplink of uplinks) await refusedAgent(demo, cluster, uplink, other, certificates, signal);
      const count = (await badSignatures(demo, signal)) - before;
      expect(count === uplinks.length, `the gateway counted ${count} bad signatures, not ${uplinks.length}`);
      return `${other.name}'s key does not open ${cluster.name}: bad-signature, by ${uplinks.join(' and ')}`;
    },
  };
}

function kubectlWithoutServerName(demo: Demo, kubectl: Kubectl, { cluster }: DemoTenant): Proof {
  return {
    title: `kubectl through the agent of ${cluster.name}`,
    async prove(signal) {
      const kubeconfig = demo.folder.file(clusterFiles.agentKubeconfig(cluster));
      const nodes = await expectNodes(kubectl, kubeconfig, cluster, signal);
      return `${nodes}, with a client certificate and no server name`;
    },
  };
}

function visitTo(to: Place, { ca }: DemoTenant['certificates'], signal: AbortSignal): TlsVisit {
  return { to, ca, signal };
}

/** The cluster itself answers, and knows the token. */
async function expectToken({ controlPlanes }: DemoCluster, visit: TlsVisit, token: string): Promise<void> {
  const headers = { Authorization: `Bearer ${token}` };
  const { code, body } = await visitHttps({ ...visit, headers, path: '/api/v1/nodes' });
  expect(code === 200 && body.includes(`"${controlPlanes[0]}"`), `the answer is ${code} ${body}`);
}

async function refusedAgent(
  demo: Demo,
  cluster: DemoCluster,
  uplink: UplinkKind,
  signer: DemoCluster | undefined,
  certificates: DemoTenant['certificates'],
  signal: AbortSignal,
): Promise<void> {
  await using agent = await demo.openAgent(cluster, uplink, signer);
  const reported = await refusedHandshake(visitTo(agent.place, certificates, signal));
  expect(reported.includes(`alert number ${ACCESS_DENIED}`), `by ${uplink} the client was told: ${reported}`);
}

async function badSignatures({ adminUrl }: Demo, signal: AbortSignal): Promise<number> {
  const metrics = await (await fetch(`${adminUrl}/metrics`, { signal })).text();
  const counts = metrics.matchAll(/^causeway_connections_total\{[^}]*reason="bad-signature"\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The log is written with a short delay. */
async function logged({ folder }: Demo, words: string, signal: AbortSignal): Promise<void> {
  while (!(await readFile(folder.file(AGENTS_LOG_FILE), 'utf8')).includes(words)) {
    await delay(POLL_MS, undefined, { signal });
  }
}
