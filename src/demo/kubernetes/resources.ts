// The resources that the stand-ins serve, and their columns in `kubectl get`: the API server, not kubectl, defines the
// rows (server-side printing).

import { ageText } from './age.ts';
import { type KubeObject, valueAt } from './kube-object.ts';

export interface Resource {
  /** '' is the core group. */
  readonly group: string;
  readonly version: string;
  /** Plural, as in the path. */
  readonly name: string;
  readonly singularName: string;
  readonly kind: string;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly namespaced: boolean;
  readonly columns: readonly Column[];
}

export interface Column {
  readonly name: string;
  readonly type?: 'string' | 'integer' | 'date';
  readonly format?: 'name';
  /** Shown by `-o wide` only. */
  readonly wide?: boolean;
  readonly cell: (object: KubeObject, now: number) => string | number;
}

const NAME: Column = { name: 'Name', format: 'name', cell: ({ metadata }) => metadata.name };
const AGE: Column = {
  name: 'Age',
  type: 'date',
  cell: ({ metadata }, now) => ageText(now - Date.parse(metadata.creationTimestamp)),
};

export const resources: readonly Resource[] = [
  {
    group: '',
    version: 'v1',
    name: 'events',
    singularName: 'event',
    kind: 'Event',
    shortNames: ['ev'],
    namespaced: true,
    columns: [NAME, AGE],
  },
  {
    group: '',
    version: 'v1',
    name: 'namespaces',
    singularName: 'namespace',
    kind: 'Namespace',
    shortNames: ['ns'],
    namespaced: false,
    columns: [NAME, field('Status', 'status.phase'), AGE],
  },
  {
    group: '',
    version: 'v1',
    name: 'nodes',
    singularName: 'node',
    kind: 'Node',
    shortNames: ['no'],
    namespaced: false,
    columns: [
      NAME,
      { name: 'Status', cell: nodeStatus },
      { name: 'Roles', cell: nodeRoles },
      AGE,
      field('Version', 'status.nodeInfo.kubeletVersion'),
      { name: 'Internal-IP', wide: true, cell: node => nodeAddress(node, 'InternalIP') },
      { name: 'External-IP', wide: true, cell: node => nodeAddress(node, 'ExternalIP') },
      { ...field('OS-Image', 'status.nodeInfo.osImage'), wide: true },
      { ...field('Kernel-Version', 'status.nodeInfo.kernelVersion'), wide: true },
      { ...field('Container-Runtime', 'status.nodeInfo.containerRuntimeVersion'), wide: true },
    ],
  },
  {
    group: '',
    version: 'v1',
    name: 'pods',
    singularName: 'pod',
    kind: 'Pod',
    shortNames: ['po'],
    categories: ['all'],
    namespaced: true,
    columns: [
      NAME,
      { name: 'Ready', cell: podReady },
      { name: 'Status', cell: podStatus },
      { name: 'Restarts', type: 'integer', cell: podRestarts },
      AGE,
      { ...field('IP', 'status.podIP'), wide: true },
      { ...field('Node', 'spec.nodeName'), wide: true },
      { ...field('Nominated Node', 'status.nominatedNodeName'), wide: true },
      { name: 'Readiness Gates', wide: true, cell: () => '<none>' },
    ],
  },
  {
    group: '',
    version: 'v1',
    name: 'services',
    singularName: 'service',
    kind: 'Service',
    shortNames: ['svc'],
    categories: ['all'],
    namespaced: true,
    columns: [
      NAME,
      field('Type', 'spec.type'),
      field('Cluster-IP', 'spec.clusterIP'),
      { name: 'External-IP', cell: () => '<none>' },
      { name: 'Port(s)', cell: servicePorts },
      AGE,
      { name: 'Selector', wide: true, cell: object => labelsText(valueAt(object, 'spec.selector')) },
    ],
  },
  {
    group: 'apps',
    version: 'v1',
    name: 'deployments',
    singularName: 'deployment',
    kind: 'Deployment',
    shortNames: ['deploy'],
    categories: ['all'],
    namespaced: true,
    columns: [
      NAME,
      { name: 'Ready', cell: deploymentReady },
      { ...field('Up-to-date', 'status.updatedReplicas'), type: 'integer' },
      { ...field('Available', 'status.availableReplicas'), type: 'integer' },
      AGE,
    ],
  },
  {
    group: 'coordination.k8s.io',
    version: 'v1',
    name: 'leases',
    singularName: 'lease',
    kind: 'Lease',
    namespaced: true,
    columns: [NAME, field('Holder', 'spec.holderIdentity'), AGE],
  },
];

/** `v1`, `apps/v1`. */
export function groupVersion({ group, version }: Pick<Resource, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}

function field(name: string, path: string): Column {
  return { name, cell: object => (valueAt(object, path) as string | number | undefined) ?? '<none>' };
}

interface Condition {
  readonly type: string;
  readonly status: string;
}

function nodeStatus(node: KubeObject): string {
  const conditions = (valueAt(node, 'status.conditions') ?? []) as readonly Condition[];
  return conditions.some(({ type, status }) => type === 'Ready' && status === 'True') ? 'Ready' : 'NotReady';
}

function nodeRoles({ metadata }: KubeObject): string {
  const prefix = 'node-role.kubernetes.io/';
  const roles = Object.keys(metadata.labels ?? {}).filter(label => label.startsWith(prefix));
  return roles.map(label => label.slice(prefix.length)).join(',') || '<none>';
}

function nodeAddress(node: KubeObject, wanted: string): string {
  const addresses = (valueAt(node, 'status.addresses') ?? []) as readonly { type: string; address: string }[];
  return addresses.find(({ type }) => type === wanted)?.address ?? '<none>';
}

interface ContainerStatus {
  readonly ready: boolean;
  readonly restartCount: number;
  readonly state: {
    readonly waiting?: { readonly reason: string };
    readonly terminated?: { readonly reason: string };
  };
}

function containerStatuses(pod: KubeObject): readonly ContainerStatus[] {
  return (valueAt(pod, 'status.containerStatuses') ?? []) as readonly ContainerStatus[];
}

function podReady(pod: KubeObject): string {
  const containers = (valueAt(pod, 'spec.containers') ?? []) as readonly object[];
  return `${containerStatuses(pod).filter(({ ready }) => ready).length}/${containers.length}`;
}

/** The reason of a container's state if there is one, otherwise the phase. */
function podStatus(pod: KubeObject): string {
  if (pod.metadata.deletionTimestamp !== undefined) return 'Terminating';
  const reasons = containerStatuses(pod).map(
    ({ state }) => state.waiting?.reason ?? state.terminated?.reason,
  );
  return reasons.find(reason => reason !== undefined) ?? String(valueAt(pod, 'status.phase'));
}

function podRestarts(pod: KubeObject): number {
  return containerStatuses(pod).reduce((sum, { restartCount }) => sum + restartCount, 0);
}

function servicePorts(service: KubeObject): string {
  const ports = (valueAt(service, 'spec.ports') ?? []) as readonly { port: number; protocol: string }[];
  return ports.map(({ port, protocol }) => `${port}/${protocol}`).join(',');
}

function deploymentReady(deployment: KubeObject): string {
  return `${valueAt(deployment, 'status.readyReplicas')}/${valueAt(deployment, 'spec.replicas')}`;
}

function labelsText(labels: unknown): string {
  const pairs = Object.entries((labels ?? {}) as Record<string, string>);
  return pairs.map(([key, value]) => `${key}=${value}`).join(',') || '<none>';
}
