// The Pod of a tenant's agent. It starts on nodes whose network is not up yet, since that network may need the agent:
// it uses the node's own network and DNS.

import type { TenantAgentOptions } from '../config/config.ts';
import type { AgentSettings } from './tenant-agent-options.ts';

export const AGENT = 'causeway-agent';
/** Where agents accept connections, on every node that has one. */
export const AGENT_PORT = 6443;
export const METRICS_PORT = 9441;
export const agentLabels = { 'app.kubernetes.io/name': AGENT } as const;

const SECRET_FOLDER = '/etc/causeway-agent';
const CA_FOLDER = '/etc/causeway-agent-ca';
/** `nonroot` of distroless images, and the user of ours. */
const USER = 65_532;
const READABLE_BY_GROUP = 0o440;
/**
 * Watches never end by themselves, and until the old Pod is gone its port is taken, so that a long time would only make
 * updates slow. The other agents serve meanwhile.
 */
const GRACE_SECONDS = 60;

/** As Steward's, and other reasons for which a node waits for its network. */
const TOLERATIONS = [
  'node.kubernetes.io/not-ready',
  'node.kubernetes.io/network-unavailable',
  'node.cilium.io/agent-not-ready',
  'node.cloudprovider.kubernetes.io/uninitialized',
].map(key => ({ key, operator: 'Exists' }));
/** A DaemonSet's: on every node. */
const EVERYTHING = [{ operator: 'Exists' }];

export function agentPod(settings: AgentSettings, options: TenantAgentOptions, writesEndpoints: boolean) {
  const { kind, tolerations, priorityClassName, imagePullSecrets } = options;
  const { hostAliases, certificate } = settings;
  const hasSecret = settings.key !== undefined || certificate !== undefined;
  const volumes = [
    ...(hasSecret ? [{ name: 'secret', secret: { secretName: AGENT, defaultMode: READABLE_BY_GROUP } }] : []),
    // The authority of the API server, which `terminate` verifies.
    ...(certificate === undefined ? [] : [{ name: 'ca', configMap: { name: 'kube-root-ca.crt' } }]),
  ];
  return {
    metadata: { labels: agentLabels },
    spec: {
      serviceAccountName: AGENT,
      automountServiceAccountToken: writesEndpoints,
      hostNetwork: true,
      // The node's: the cluster's DNS may need this agent first.
      dnsPolicy: 'Default',
      priorityClassName,
      tolerations: [...(kind === 'DaemonSet' ? EVERYTHING : TOLERATIONS), ...tolerations],
      terminationGracePeriodSeconds: GRACE_SECONDS,
      ...(hostAliases.length > 0 && { hostAliases }),
      ...(imagePullSecrets.length > 0 && { imagePullSecrets: imagePullSecrets.map(name => ({ name })) }),
      ...(kind === 'Deployment' && { affinity }),
      securityContext: {
        runAsNonRoot: true,
        runAsUser: USER,
        runAsGroup: USER,
        fsGroup: USER,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [container(settings, options, writesEndpoints, volumes)],
      ...(volumes.length > 0 && { volumes }),
    },
  };
}

/** One per node, which the host port wants anyway, and in different zones where there are some. */
const affinity = {
  podAntiAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: [
      { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: agentLabels } },
    ],
    preferredDuringSchedulingIgnoredDuringExecution: [
      {
        weight: 100,
        podAffinityTerm: {
          topologyKey: 'topology.kubernetes.io/zone',
          labelSelector: { matchLabels: agentLabels },
        },
      },
    ],
  },
} as const;

function container(
  settings: AgentSettings,
  options: TenantAgentOptions,
  writesEndpoints: boolean,
  volumes: readonly { readonly name: string }[],
) {
  const folders: Readonly<Record<string, string>> = { secret: SECRET_FOLDER, ca: CA_FOLDER };
  return {
    name: 'agent',
    image: settings.image,
    args: agentArguments(settings, options, writesEndpoints),
    env: [
      fieldVariable('NODE_NAME', 'spec.nodeName'),
      fieldVariable('POD_NAME', 'metadata.name'),
      // --advertise. On the host network these are the node's, one for each family.
      ...(writesEndpoints ? [fieldVariable('CAUSEWAY_AGENT_ADVERTISE', 'status.podIPs')] : []),
    ],
    ports: [
      { name: 'https', containerPort: AGENT_PORT, hostPort: AGENT_PORT, protocol: 'TCP' },
      { name: 'metrics', containerPort: METRICS_PORT, hostPort: METRICS_PORT, protocol: 'TCP' },
    ],
    livenessProbe: { httpGet: { path: '/healthz', port: 'metrics' }, timeoutSeconds: 5 },
    readinessProbe: { httpGet: { path: '/readyz', port: 'metrics' }, timeoutSeconds: 5 },
    resources: settings.resources,
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    ...(volumes.length > 0 && {
      volumeMounts: volumes.map(({ name }) => ({ name, mountPath: folders[name], readOnly: true })),
    }),
  };
}

/** Flags of `causeway agent`. */
function agentArguments(
  settings: AgentSettings,
  { uplink }: TenantAgentOptions,
  writesEndpoints: boolean,
): readonly string[] {
  const { id, gateway, gatewayAddresses, serverName, key, certificate } = settings;
  return [
    'agent',
    `--cluster-id=${id}`,
    `--gateway=${gateway}`,
    ...gatewayAddresses.map(address => `--gateway-address=${address}`),
    `--uplink=${uplink}`,
    ...(serverName === undefined ? [] : [`--server-name=${serverName}`]),
    ...(key === undefined ? [] : [`--key-file=${SECRET_FOLDER}/key`]),
    ...(certificate === undefined
      ? []
      : [
          `--cert-file=${SECRET_FOLDER}/tls.crt`,
          `--cert-key-file=${SECRET_FOLDER}/tls.key`,
          `--ca-file=${CA_FOLDER}/ca.crt`,
        ]),
    `--on=:${AGENT_PORT}`,
    ...(writesEndpoints ? ['--endpoints'] : []),
    `--metrics-on=:${METRICS_PORT}`,
  ];
}

function fieldVariable(name: string, fieldPath: string) {
  return { name, valueFrom: { fieldRef: { fieldPath } } };
}
