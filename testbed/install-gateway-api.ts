// Installs the Gateway API into an API server, as the Traefik of the test bed reads it: the CustomResourceDefinitions of
// the experimental channel, which has TLSRoute, out of the Go module that this Traefik was built with.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { goModule } from './go-build.ts';
import { kubectl } from './kubectl.ts';
import type { ApiServer } from './start-api-server.ts';

const WAIT_MS = 60_000;
const GROUP = 'gateway.networking.k8s.io';
/** Traefik waits for all of them. */
const PLURALS = [
  'backendtlspolicies',
  'gatewayclasses',
  'gateways',
  'grpcroutes',
  'httproutes',
  'referencegrants',
  'tcproutes',
  'tlsroutes',
];

/** With a GatewayClass `traefik`. */
export async function installGatewayApi(server: ApiServer): Promise<void> {
  const folder = join(await goModule('traefik', 'sigs.k8s.io/gateway-api'), 'config', 'crd', 'experimental');
  await server.kubectl(
    'create',
    ...PLURALS.flatMap(plural => ['-f', join(folder, `${GROUP}_${plural}.yaml`)]),
  );
  const admin = await server.kubeconfig();
  const resources = PLURALS.map(plural => `${plural}.${GROUP}`).join(',');
  const deadline = performance.now() + WAIT_MS;
  while ((await kubectl(admin, ['get', resources, '-A'])).code !== 0) {
    if (performance.now() > deadline) throw new Error(`${resources} cannot be listed`);
    await sleep(100);
  }
  await server.apply({
    apiVersion: `${GROUP}/v1`,
    kind: 'GatewayClass',
    metadata: { name: 'traefik' },
    spec: { controllerName: 'traefik.io/gateway-controller' },
  });
}

/** Flags of a Traefik that serves the Gateways of this API server. */
export function gatewayApiFlags({ url, token, caFile }: ApiServer): readonly string[] {
  return [
    '--providers.kubernetesgateway.experimentalchannel=true',
    `--providers.kubernetesgateway.endpoint=${url}`,
    `--providers.kubernetesgateway.token=${token}`,
    `--providers.kubernetesgateway.certauthfilepath=${caFile}`,
  ];
}

export interface SampleGateway {
  readonly namespace: string;
  readonly name: string;
  /** Of an entry point of Traefik. */
  readonly port: number;
  /** Whose routes its listener takes. */
  readonly from: 'Same' | 'All';
}

/** Passes TLS through, with one listener, `tls`. */
export function passthroughGateway({ namespace, name, port, from }: SampleGateway): object {
  return {
    apiVersion: `${GROUP}/v1`,
    kind: 'Gateway',
    metadata: { name, namespace },
    spec: {
      gatewayClassName: 'traefik',
      listeners: [
        {
          name: 'tls',
          port,
          protocol: 'TLS',
          tls: { mode: 'Passthrough' },
          allowedRoutes: { namespaces: { from }, kinds: [{ kind: 'TLSRoute' }] },
        },
      ],
    },
  };
}
