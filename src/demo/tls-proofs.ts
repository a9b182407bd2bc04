// Proofs of what goes by TLS: API servers and konnectivity by server name, by CONNECT, and what is refused. Without a
// server name: uplink-proofs.ts.

import { certificateUser } from './cluster-certificates.ts';
import type { Demo, DemoTenant } from './demo.ts';
import {
  firstLine,
  handshake,
  type TlsVisit,
  visitHttp2,
  visitHttps,
  visitThroughConnect,
  visitThroughHttp2Connect,
} from './demo-client.ts';
import { konnectivityText } from './konnectivity-server.ts';
import { SERVED_BY } from './kubernetes/api-server.ts';
import { expect, type Proof } from './proof.ts';

/** With two servers and round robin, this many in a row from one of them would be no accident. */
const TRIES = 12;
const UNRECOGNIZED_NAME = 112;

export function tlsProofs(demo: Demo): Proof[] {
  const { tenants } = demo;
  const [hub, managed1] = tenants;
  return [
    ...tenants.map(tenant => apiByServerName(demo, tenant)),
    clientCertificate(demo, managed1),
    bothApiServers(demo, managed1),
    oneApiServerKilled(demo, managed1),
    watchStream(demo, managed1),
    ...tenants.map(tenant => konnectivity(demo, tenant)),
    connect(demo, hub),
    http2Connect(demo, hub),
    unknownServerName(demo, managed1),
  ];
}

function apiByServerName(demo: Demo, { cluster, certificates }: DemoTenant): Proof {
  return {
    title: `API of ${cluster.name} by server name`,
    async prove(signal) {
      const visit = { to: demo.gateway, name: cluster.apiHost, path: '/version', signal };
      const reply = await visitHttps({ ...visit, ca: certificates.ca });
      expectVersion(reply.body, cluster.name);
      return `${reply.headers[SERVED_BY]} answers, with the cluster's own certificate`;
    },
  };
}

function clientCertificate(demo: Demo, { cluster, certificates }: DemoTenant): Proof {
  return {
    title: 'client certificate, end to end',
    async prove(signal) {
      const { ca, client } = certificates;
      const visit = { to: demo.gateway, name: cluster.apiHost, ca, signal };
      const stranger = await visitHttps({ ...visit, path: '/api/v1/nodes' });
      expect(stranger.code === 401, `without it the API server answered ${stranger.code}, not 401`);
      await expectUser({ ...visit, client });
      return `the API server knows ${certificateUser.name}, and answers 401 without it`;
    },
  };
}

function bothApiServers(demo: Demo, { cluster, certificates }: DemoTenant): Proof {
  return {
    title: 'both API servers are reached',
    async prove(signal) {
      const seen = new Set<string>();
      for (let i = 0; i < TRIES && seen.size < cluster.controlPlanes.length; i++) {
        const visit = { to: demo.gateway, name: cluster.apiHost, path: '/version', signal };
        seen.add(String((await visitHttps({ ...visit, ca: certificates.ca })).headers[SERVED_BY]));
      }
      expect(seen.size === cluster.controlPlanes.length, `only ${[...seen].join()} answered`);
      return [...seen].toSorted().join(' and ');
    },
  };
}

function oneApiServerKilled(demo: Demo, { cluster, certificates }: DemoTenant): Proof {
  const [killed, left] = cluster.controlPlanes;
  return {
    title: 'one API server killed is survived',
    async prove(signal) {
      await demo.standIns.stopApi(cluster.name, 0);
      try {
        // Round robin: two of them would have been for the one that is gone.
        for (let i = 0; i < 4; i++) {
          const visit = { to: demo.gateway, name: cluster.apiHost, path: '/version', signal };
          const { headers } = await visitHttps({ ...visit, ca: certificates.ca });
          expect(headers[SERVED_BY] === left, `${headers[SERVED_BY]} answered, not ${left}`);
        }
      } finally {
        await demo.standIns.startApi(cluster.name, 0);
      }
      return `without ${killed}, ${left} answers every time`;
    },
  };
}

function watchStream(demo: Demo, { cluster, certificates: { ca, client } }: DemoTenant): Proof {
  return {
    title: 'watch of pods, as it streams',
    async prove(signal) {
      const path = '/api/v1/pods?watch=true';
      const line = await firstLine({ to: demo.gateway, name: cluster.apiHost, ca, client, path, signal });
      const { type, object } = JSON.parse(line);
      expect(type === 'ADDED' && object.kind === 'Pod', `the first event is ${line}`);
      return `the first event: ${type} ${object.metadata.name}`;
    },
  };
}

function konnectivity(demo: Demo, { cluster, certificates }: DemoTenant): Proof {
  return {
    title: `konnectivity of ${cluster.name} by server name`,
    async prove(signal) {
      const visit = { to: demo.gateway, name: cluster.konnectivityHost, signal };
      const body = await visitHttp2({ ...visit, ca: certificates.ca });
      expect(body === konnectivityText(cluster), `the answer is ${JSON.stringify(body)}`);
      return 'ALPN h2';
    },
  };
}

function connect(demo: Demo, { cluster, certificates: { ca } }: DemoTenant): Proof {
  return {
    title: `CONNECT to ${cluster.name}`,
    async prove(signal) {
      const visit = { to: demo.gateway, name: cluster.apiHost, ca, path: '/version', signal };
      const { body } = await visitThroughConnect(`${cluster.name}:6443`, visit);
      expectVersion(body, cluster.name);
      return 'TLS inside it, untouched';
    },
  };
}

function http2Connect(demo: Demo, { cluster, certificates: { ca } }: DemoTenant): Proof {
  return {
    title: `CONNECT to ${cluster.name} over HTTP/2`,
    async prove(signal) {
      const visit = { to: demo.gateway, name: cluster.apiHost, ca, path: '/version', signal };
      const { body } = await visitThroughHttp2Connect(`${cluster.name}:6443`, visit);
      expectVersion(body, cluster.name);
      return "one stream, as Kubermatic's agents open them";
    },
  };
}

function unknownServerName(demo: Demo, { certificates: { ca } }: DemoTenant): Proof {
  return {
    title: 'an unknown server name is refused',
    async prove(signal) {
      const error = await refusedHandshake({
        to: demo.gateway,
        name: 'api.nobody.causeway.test',
        ca,
        signal,
      });
      const reported = `alert number ${UNRECOGNIZED_NAME}`;
      expect(error.includes(reported), `the client was told: ${error}`);
      return `TLS alert ${UNRECOGNIZED_NAME}, unrecognized_name`;
    },
  };
}

/** The API server knows the client by its certificate. */
export async function expectUser(visit: TlsVisit): Promise<void> {
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const { code, body } = await visitHttps({ ...visit, path, method: 'POST' });
  expect(
    code === 201 && body.includes(`"${certificateUser.name}"`),
    `the API server answered ${code} ${body}`,
  );
}

/** What the client is told; throws when it is let in. */
export async function refusedHandshake(visit: TlsVisit): Promise<string> {
  const outcome = await handshake(visit).catch((error: Error) => error);
  if (outcome instanceof Error) return outcome.message;
  outcome.destroy();
  throw new Error('it was let in');
}

export function expectVersion(body: string, cluster: string): void {
  const version = /"gitVersion":\s*"([^"]*)"/.exec(body)?.[1];
  expect(
    version?.endsWith(`+${cluster}`) === true,
    `the version is ${version ?? body}, which is not ${cluster}'s`,
  );
}
