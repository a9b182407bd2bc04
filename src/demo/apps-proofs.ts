// Proofs for applications: https by wildcard name, cleartext http by Host, WebSockets over both.

import { Agent } from 'node:http';
import type { Demo, DemoTenant } from './demo.ts';
import { type Reply, visitHttp, visitHttps, webSocketTexts } from './demo-client.ts';
import { helloHost } from './demo-clusters.ts';
import { CLUSTER_HEADER } from './ingress-server.ts';
import { expect, type Proof } from './proof.ts';

const MISDIRECTED = 421;
/** As a browser sends it. */
const headers = { Accept: 'text/html' };

export function appsProofs(demo: Demo): Proof[] {
  const { tenants } = demo;
  const [, managed1] = tenants;
  return [
    ...tenants.map(tenant => overHttps(demo, tenant)),
    ...tenants.map(tenant => overHttp(demo, tenant)),
    twoHostsOneConnection(demo),
    webSocket(demo, managed1, 'http'),
    webSocket(demo, managed1, 'https'),
    unknownHost(demo),
  ];
}

function overHttps(demo: Demo, { cluster, certificates: { ca } }: DemoTenant): Proof {
  return {
    title: `https to applications of ${cluster.name}`,
    async prove(signal) {
      const reply = await visitHttps({ to: demo.gateway, name: helloHost(cluster), ca, headers, signal });
      expectPage(reply, cluster.name);
      return `${helloHost(cluster)}, by *.${cluster.appsDomain}`;
    },
  };
}

function overHttp(demo: Demo, { cluster }: DemoTenant): Proof {
  return {
    title: `http to applications of ${cluster.name}`,
    async prove(signal) {
      expectPage(
        await visitHttp({ to: demo.gateway, name: helloHost(cluster), headers, signal }),
        cluster.name,
      );
      return `${helloHost(cluster)}, by Host`;
    },
  };
}

/** A keep-alive connection must not carry one cluster's request to another. */
function twoHostsOneConnection(demo: Demo): Proof {
  return {
    title: 'two Hosts on one connection',
    async prove(signal) {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      try {
        const [first, , last] = demo.tenants.map(({ cluster }) => cluster);
        for (const [index, cluster] of [first, last, first].entries()) {
          const reply = await visitHttp({
            to: demo.gateway,
            name: helloHost(cluster),
            headers,
            agent,
            signal,
          });
          expectPage(reply, cluster.name);
          expect(reply.reused || index === 0, 'the connection was not reused');
        }
        return `${first.name}, ${last.name} and ${first.name} again, each answered by its own cluster`;
      } finally {
        agent.destroy();
      }
    },
  };
}

function webSocket(demo: Demo, { cluster, certificates }: DemoTenant, protocol: 'http' | 'https'): Proof {
  return {
    title: `WebSocket over ${protocol}`,
    async prove(signal) {
      const visit = { to: demo.gateway, name: helloHost(cluster), signal };
      const [text] = await webSocketTexts(
        protocol === 'https' ? { ...visit, ca: certificates.ca } : visit,
        1,
      );
      expect(text === `${cluster.name}, tick 1`, `it sent '${text}'`);
      return text;
    },
  };
}

function unknownHost(demo: Demo): Proof {
  return {
    title: 'an unknown Host is refused',
    async prove(signal) {
      const { code } = await visitHttp({ to: demo.gateway, name: 'hello.apps.nobody.localhost', signal });
      expect(code === MISDIRECTED, `the answer was ${code}, not ${MISDIRECTED}`);
      return `${code} Misdirected Request`;
    },
  };
}

function expectPage({ code, headers, body }: Reply, cluster: string): void {
  expect(code === 200, `the answer was ${code}`);
  const answered = headers[CLUSTER_HEADER];
  expect(answered === cluster && body.includes(`<h1>${cluster}</h1>`), `'${answered}' answered`);
}
