// Installs what a Traefik that follows an API server needs there: IngressRouteTCP as it is, and its other resources,
// which it waits for whether it needs them or not.

import { installDefinition } from './install-definition.ts';
import type { ApiServer } from './start-api-server.ts';

const OTHERS = [
  'IngressRoute',
  'IngressRouteUDP',
  'Middleware',
  'MiddlewareTCP',
  'ServersTransport',
  'ServersTransportTCP',
  'TLSOption',
  'TLSStore',
  'TraefikService',
];

export async function installTraefik(server: ApiServer): Promise<void> {
  await server.apply(...OTHERS.map(definition));
  await installDefinition(server, 'traefik-ingressroutetcps', 'ingressroutetcps.traefik.io');
}

/** Flags of a Traefik that follows this API server. */
export function traefikFlags({ url, token, caFile }: ApiServer): readonly string[] {
  return [
    `--providers.kubernetescrd.endpoint=${url}`,
    `--providers.kubernetescrd.token=${token}`,
    `--providers.kubernetescrd.certauthfilepath=${caFile}`,
  ];
}

function definition(kind: string): object {
  const singular = kind.toLowerCase();
  const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${singular}s.traefik.io` },
    spec: {
      group: 'traefik.io',
      scope: 'Namespaced',
      names: { kind, singular, plural: `${singular}s`, listKind: `${kind}List` },
      versions: [{ name: 'v1alpha1', served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  };
}
