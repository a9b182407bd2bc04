// The output `tenantAgent`: the objects of a tenant's agent in the tenant's own kube-system, all called `causeway-agent`.
// Pure. They are applied with the tenant's admin kubeconfig (tenant-access.ts), in this order.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { TenantAgentOptions } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf, type Resource, resource, services } from '../kube/resources.ts';
import type { DesiredObject } from './output.ts';
import {
  type AgentSettings,
  agentSettings,
  type KeyPair,
  type TenantAgentContext,
} from './tenant-agent-options.ts';
import { AGENT, AGENT_PORT, agentLabels, agentPod, METRICS_PORT } from './tenant-agent-pod.ts';

const NAMESPACE = 'kube-system';
const RBAC = 'rbac.authorization.k8s.io';
/**
 * A new Pod serves so long before the next old one ends: its address must be in default/kubernetes, and known to the
 * nodes, before the last of the old ones is gone.
 */
const MIN_READY_SECONDS = 10;

const serviceAccounts = resource('v1', 'serviceaccounts', 'ServiceAccount');
const secrets = resource('v1', 'secrets', 'Secret');
const roles = resource(`${RBAC}/v1`, 'roles', 'Role');
const roleBindings = resource(`${RBAC}/v1`, 'rolebindings', 'RoleBinding');
const clusterRoles = resource(`${RBAC}/v1`, 'clusterroles', 'ClusterRole');
const clusterRoleBindings = resource(`${RBAC}/v1`, 'clusterrolebindings', 'ClusterRoleBinding');
const deployments = resource('apps/v1', 'deployments', 'Deployment');
const daemonSets = resource('apps/v1', 'daemonsets', 'DaemonSet');

/** Everything that may be written in a tenant, for pruning too. */
export const tenantAgentResources: readonly Resource<KubeObject>[] = [
  serviceAccounts,
  secrets,
  roles,
  roleBindings,
  clusterRoles,
  clusterRoleBindings,
  services,
  deployments,
  daemonSets,
];

type TenantAgentObject = Omit<DesiredObject, 'cluster'>;

export interface TenantAgent {
  /** Those needed first come first. Absent where they cannot be told now: existing ones must stay as they are. */
  readonly objects?: readonly DesiredObject[];
  readonly findings: readonly Finding[];
}

export function tenantAgentObjects(
  cluster: Cluster,
  options: TenantAgentOptions,
  context: TenantAgentContext,
): TenantAgent {
  const { settings, findings } = agentSettings(cluster, options, context);
  if (settings === undefined) return { findings };
  const { writesEndpoints } = context;
  const objects = [
    made(serviceAccounts, NAMESPACE, {}),
    ...secretOf(settings),
    ...(writesEndpoints ? rights : []),
    agentService,
    workload(settings, options, writesEndpoints),
  ];
  // The source's object is in another API server: there it would own nothing, and be taken for one that is gone.
  const inTenant = { ...cluster, origin: { source: cluster.origin.source } };
  return { objects: objects.map(each => ({ ...each, cluster: inTenant })), findings };
}

/** The same for many clusters: the result is the same object as long as cluster and certificate are. */
export function rememberTenantAgents(
  options: TenantAgentOptions,
  context: TenantAgentContext,
): (cluster: Cluster) => TenantAgent {
  const known = new WeakMap<
    Cluster,
    { readonly certificate: KeyPair | undefined; readonly agent: TenantAgent }
  >();
  return cluster => {
    const certificate = context.certificateOf?.(cluster);
    const before = known.get(cluster);
    if (before !== undefined && before.certificate === certificate) return before.agent;
    const agent = tenantAgentObjects(cluster, options, context);
    known.set(cluster, { certificate, agent });
    return agent;
  };
}

function made(
  of: Resource<KubeObject>,
  namespace: string | undefined,
  content: Readonly<Record<string, unknown>>,
): TenantAgentObject {
  const metadata = { name: AGENT, ...(namespace !== undefined && { namespace }), labels: agentLabels };
  return { resource: of, object: { apiVersion: apiVersionOf(of), kind: of.kind, metadata, ...content } };
}

function secretOf({ key, certificate }: AgentSettings): readonly TenantAgentObject[] {
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  if (key !== undefined) return [made(secrets, NAMESPACE, { type: 'Opaque', data: { key: base64(key) } })];
  if (certificate === undefined) return [];
  const data = { 'tls.crt': base64(certificate.cert), 'tls.key': base64(certificate.key) };
  return [made(secrets, NAMESPACE, { type: 'Opaque', data })];
}

/** What `--endpoints` needs. Leases have names that are not known beforehand, so their rule cannot name them. */
const rights: readonly TenantAgentObject[] = [
  ...role('default', [
    { apiGroups: [''], resources: ['services'], resourceNames: ['kubernetes'], verbs: ['get'] },
    { apiGroups: [''], resources: ['endpoints'], resourceNames: ['kubernetes'], verbs: ['get', 'update'] },
    { apiGroups: [''], resources: ['endpoints'], verbs: ['create'] },
    {
      apiGroups: ['discovery.k8s.io'],
      resources: ['endpointslices'],
      resourceNames: ['kubernetes', 'kubernetes-ipv4', 'kubernetes-ipv6'],
      verbs: ['get', 'update', 'delete'],
    },
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['create'] },
  ]),
  ...role(NAMESPACE, [
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      verbs: ['get', 'list', 'create', 'update', 'delete'],
    },
  ]),
  ...role(undefined, [{ apiGroups: ['networking.k8s.io'], resources: ['servicecidrs'], verbs: ['list'] }]),
];

function role(namespace: string | undefined, rules: readonly object[]): readonly TenantAgentObject[] {
  const [of, binding] = namespace === undefined ? [clusterRoles, clusterRoleBindings] : [roles, roleBindings];
  return [
    made(of, namespace, { rules }),
    made(binding, namespace, {
      roleRef: { apiGroup: RBAC, kind: of.kind, name: AGENT },
      subjects: [{ kind: 'ServiceAccount', name: AGENT, namespace: NAMESPACE }],
    }),
  ];
}

/** Lists the agents for monitoring. No connection goes through it: default/kubernetes leads to the agents themselves. */
const agentService: TenantAgentObject = made(services, NAMESPACE, {
  spec: {
    clusterIP: 'None',
    publishNotReadyAddresses: true,
    selector: agentLabels,
    ports: [
      { name: 'https', port: AGENT_PORT, targetPort: 'https', protocol: 'TCP' },
      { name: 'metrics', port: METRICS_PORT, targetPort: 'metrics', protocol: 'TCP' },
    ],
  },
});

function workload(
  settings: AgentSettings,
  options: TenantAgentOptions,
  writesEndpoints: boolean,
): TenantAgentObject {
  const shared = {
    selector: { matchLabels: agentLabels },
    template: agentPod(settings, options, writesEndpoints),
  };
  if (options.kind === 'DaemonSet') {
    const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '10%' } };
    return made(daemonSets, NAMESPACE, { spec: { ...shared, updateStrategy } });
  }
  // A new Pod cannot start beside the old one on its node: they want the same port.
  const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } };
  const { replicas } = options;
  return made(deployments, NAMESPACE, {
    spec: { replicas, minReadySeconds: MIN_READY_SECONDS, ...shared, strategy },
  });
}
