// Proofs for operators: the dashboard, the metrics, edits of the file while serving, and kubectl.

import { setTimeout as delay } from 'node:timers/promises';
import type { Demo, DemoTenant } from './demo.ts';
import { visitHttp, visitHttps } from './demo-client.ts';
import { type DemoCluster, GUEST_HOST, helloHost } from './demo-clusters.ts';
import { clusterFiles } from './demo-files.ts';
import { type Kubectl, untilPrinted } from './kubectl.ts';
import { expect, type Proof } from './proof.ts';
import { expectVersion, refusedHandshake } from './tls-proofs.ts';

/** In every API server's certificate, but not in the file at first. */
const ALIAS = 'kubernetes.default.svc';
const PERMANENT_REDIRECT = 308;
/** Each attempt logs a line beside the file, and the gateway waits for a quiet moment in that folder. */
const POLL_MS = 150;

export function operationProofs(demo: Demo, kubectl: Kubectl | undefined): Proof[] {
  const [hub, managed1, managed2] = demo.tenants;
  return [
    dashboard(demo),
    metrics(demo),
    ...(kubectl === undefined
      ? []
      : [
          ...demo.tenants.map(tenant => kubectlGetNodes(demo, kubectl, tenant)),
          kubectlGetPods(demo, kubectl, managed1),
          kubectlWatch(demo, kubectl, managed1),
        ]),
    guestComes(demo, hub),
    guestGoes(demo, hub),
    // Last, because they change the file that the other proofs expect.
    liveEdit(demo, hub, managed2),
    redirect(demo, managed2),
  ];
}

function dashboard({ adminUrl }: Demo): Proof {
  return {
    title: 'the dashboard is served',
    async prove(signal) {
      const response = await fetch(adminUrl, { signal });
      const body = await response.text();
      expect(response.status === 200, `the answer to GET / was ${response.status}`);
      expect(/<html/i.test(body), 'GET / is not a page');
      return `${adminUrl}/`;
    },
  };
}

function metrics({ adminUrl, tenants }: Demo): Proof {
  return {
    title: 'the metrics cover every cluster',
    async prove(signal) {
      const response = await fetch(`${adminUrl}/metrics`, { signal });
      const body = await response.text();
      expect(response.status === 200, `the answer to GET /metrics was ${response.status}`);
      for (const { cluster } of tenants) {
        const served = `causeway_connections_total{cluster="${cluster.name}",route="api",reason="done"}`;
        expect(body.includes(served), `${served} is missing`);
      }
      return `${adminUrl}/metrics`;
    },
  };
}

function kubectlGetNodes(demo: Demo, kubectl: Kubectl, tenant: DemoTenant): Proof {
  const { cluster } = tenant;
  return {
    title: `kubectl get nodes in ${cluster.name}`,
    async prove(signal) {
      return expectNodes(kubectl, kubeconfigOf(demo, tenant), cluster, signal);
    },
  };
}

function kubectlGetPods(demo: Demo, kubectl: Kubectl, tenant: DemoTenant): Proof {
  return {
    title: 'kubectl get pods -A -o wide',
    async prove(signal) {
      const args = ['get', 'pods', '-A', '-o', 'wide'];
      const printed = await kubectl(kubeconfigOf(demo, tenant), args, signal);
      const [head, ...rows] = printed.trimEnd().split('\n');
      const columns = /^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE +IP +NODE/;
      expect(columns.test(head), `its columns are ${head}`);
      return `${rows.length} pods`;
    },
  };
}

function kubectlWatch(demo: Demo, kubectl: Kubectl, tenant: DemoTenant): Proof {
  return {
    title: 'kubectl get pods --watch',
    async prove(signal) {
      // The list comes first, with one line for the pod; the next line is a change, seen live.
      const args = ['get', 'pods', '--watch', '-l', 'job=tick', '--no-headers'];
      const printed = await untilPrinted(
        signal,
        text => text.split('\n').length > 2,
        (signal, reported) => kubectl(kubeconfigOf(demo, tenant), args, signal, reported),
      );
      const [name, , status] = printed.split('\n')[1].split(/ +/);
      return `live change: ${name} ${status}`;
    },
  };
}

function guestComes(demo: Demo, { certificates: { ca } }: DemoTenant): Proof {
  return {
    title: 'a cluster comes with a file in a directory',
    async prove(signal) {
      await refusedHandshake({ to: demo.gateway, name: GUEST_HOST, ca, signal });
      const start = performance.now();
      demo.setGuest(true);
      const visit = { to: demo.gateway, name: GUEST_HOST, ca, path: '/version', signal };
      while ((await visitHttps(visit).catch(() => undefined)) === undefined)
        await delay(POLL_MS, undefined, { signal });
      return `${GUEST_HOST} after ${Math.round(performance.now() - start)} ms`;
    },
  };
}

/** Relies on guestComes(). */
function guestGoes(demo: Demo, { certificates: { ca } }: DemoTenant): Proof {
  return {
    title: 'a cluster goes with its file',
    async prove(signal) {
      demo.setGuest(false);
      const visit = { to: demo.gateway, name: GUEST_HOST, ca, path: '/version', signal };
      while ((await visitHttps(visit).catch(() => undefined)) !== undefined)
        await delay(POLL_MS, undefined, { signal });
      await refusedHandshake({ to: demo.gateway, name: GUEST_HOST, ca, signal });
      return `${GUEST_HOST} is unknown again`;
    },
  };
}

function liveEdit(demo: Demo, hub: DemoTenant, managed2: DemoTenant): Proof {
  const {
    cluster,
    certificates: { ca },
  } = hub;
  return {
    title: 'an edit of the file takes effect',
    async prove(signal) {
      await refusedHandshake({ to: demo.gateway, name: ALIAS, ca, signal });
      const start = performance.now();
      demo.edit({ alias: ALIAS, redirect: managed2.cluster.name });
      const visit = { to: demo.gateway, name: ALIAS, ca, path: '/version', signal };
      for (;;) {
        const reply = await visitHttps(visit).catch(() => undefined);
        if (reply !== undefined) {
          expectVersion(reply.body, cluster.name);
          const ms = Math.round(performance.now() - start);
          return `a new host of ${cluster.name} after ${ms} ms, without a restart`;
        }
        await delay(POLL_MS, undefined, { signal });
      }
    },
  };
}

/** Relies on the edit of liveEdit(). */
function redirect(demo: Demo, { cluster }: DemoTenant): Proof {
  return {
    title: 'http redirected to https',
    async prove(signal) {
      const name = helloHost(cluster);
      const { code, headers } = await visitHttp({ to: demo.gateway, name, path: '/a?b=c', signal });
      const wanted = `https://${name}:${demo.gateway.port}/a?b=c`;
      expect(code === PERMANENT_REDIRECT, `the answer was ${code}, not ${PERMANENT_REDIRECT}`);
      expect(headers.location === wanted, `it redirects to ${headers.location}, not to ${wanted}`);
      return `${code} to ${wanted}`;
    },
  };
}

/** Returns the names of the nodes. */
export async function expectNodes(
  kubectl: Kubectl,
  kubeconfig: string,
  { controlPlanes }: DemoCluster,
  signal: AbortSignal,
): Promise<string> {
  const printed = await kubectl(kubeconfig, ['get', 'nodes'], signal);
  for (const node of controlPlanes) expect(printed.includes(node), `it printed: ${printed}`);
  return controlPlanes.join(', ');
}

function kubeconfigOf({ folder }: Demo, { cluster }: DemoTenant): string {
  return folder.file(clusterFiles.kubeconfig(cluster));
}
