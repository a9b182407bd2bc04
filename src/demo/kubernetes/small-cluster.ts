// The objects of a small running cluster: nodes, system pods, an application, and a job that starts a pod from time to
// time, so that `kubectl get pods --watch` has something to show.

import { createHash } from 'node:crypto';
import type { DemoCluster } from '../demo-clusters.ts';
import { ClusterState } from './cluster-state.ts';
import { KUBERNETES_VERSION } from './discovery.ts';
import type { KubeObject, Metadata } from './kube-object.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const HOUR_MS = 60 * 60 * 1000;

/** The states of a job's pod, in order. */
const jobSteps = ['Pending', 'ContainerCreating', 'Running', 'Completed'] as const;
type PodState = (typeof jobSteps)[number];

/** A cluster, and a function that advances its job by one step. Times are in ms since 1970. */
export function smallCluster(
  cluster: DemoCluster,
  now: number,
): { readonly state: ClusterState; readonly step: (now: number) => void } {
  const state = new ClusterState();
  const made = new Date(now - 12 * DAY_MS).toISOString();
  const names = [...cluster.controlPlanes, `${cluster.name}-worker-0`];
  for (const name of ['default', 'kube-node-lease', 'kube-public', 'kube-system']) {
    const labels = { 'kubernetes.io/metadata.name': name };
    state.put(
      'namespaces',
      object('v1', 'Namespace', { name, labels, made }, { status: { phase: 'Active' } }),
    );
  }
  for (const [index, name] of names.entries()) {
    state.put('nodes', node(cluster, name, index, made, now));
    state.put('leases', lease(name, made, now));
  }
  for (const [resource, one] of applications(cluster, made, now)) state.put(resource, one);
  return { state, step: jobRunner(cluster, state) };
}

function applications(cluster: DemoCluster, made: string, now: number): [string, KubeObject][] {
  const { name, controlPlanes, network } = cluster;
  const worker = `${name}-worker-0`;
  const recently = new Date(now - 5 * HOUR_MS).toISOString();
  const system = (pod: string, on: string, image: string, index: number): [string, KubeObject] => [
    'pods',
    runningPod({ cluster, namespace: 'kube-system', name: pod, node: on, image, index, made }),
  ];
  return [
    ...controlPlanes.flatMap((on, index) => [
      system(`etcd-${on}`, on, 'etcd:3.5', 2 + index),
      system(`kube-apiserver-${on}`, on, `kube-apiserver:${KUBERNETES_VERSION}`, 4 + index),
    ]),
    system(`coredns-${shortHash(name)}-x2v9k`, worker, 'coredns:1.12', 8),
    system(`konnectivity-agent-${shortHash(worker).slice(0, 5)}`, worker, 'konnectivity-agent:0.33', 9),
    ...['7kq2d', 'zl8wn'].map((suffix, index): [string, KubeObject] => [
      'pods',
      runningPod({
        cluster,
        namespace: 'default',
        name: `hello-${shortHash(`${name} hello`)}-${suffix}`,
        labels: { app: 'hello' },
        node: worker,
        image: 'hello:1',
        index: 20 + index,
        made: recently,
      }),
    ]),
    ['services', service('default', 'kubernetes', `10.${network}.96.1`, 443, made)],
    ['services', service('default', 'hello', `10.${network}.96.20`, 80, recently, { app: 'hello' })],
    [
      'services',
      service('kube-system', 'kube-dns', `10.${network}.96.10`, 53, made, { 'k8s-app': 'kube-dns' }),
    ],
    ['deployments', deployment('default', 'hello', 2, recently)],
    ['deployments', deployment('kube-system', 'coredns', 1, made)],
  ];
}

/** Runs one pod after the other: each goes through all states and is then removed. */
function jobRunner(cluster: DemoCluster, state: ClusterState): (now: number) => void {
  let number = 0;
  let at: number = jobSteps.length;
  let pod: KubeObject | undefined;
  return now => {
    if (at >= jobSteps.length) {
      if (pod !== undefined) state.remove('pods', pod);
      at = 0;
      number++;
    }
    const name = `tick-${number}`;
    const made = pod?.metadata.name === name ? pod.metadata.creationTimestamp : new Date(now).toISOString();
    pod = podIn(jobSteps[at], {
      cluster,
      namespace: 'default',
      name,
      labels: { job: 'tick' },
      node: `${cluster.name}-worker-0`,
      image: 'tick:1',
      index: 100 + (number % 100),
      made,
    });
    state.put('pods', pod);
    at++;
  };
}

interface PodOptions {
  readonly cluster: DemoCluster;
  readonly namespace: string;
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly node: string;
  readonly image: string;
  /** The last octet of its address. */
  readonly index: number;
  readonly made: string;
}

function runningPod(options: PodOptions): KubeObject {
  return podIn('Running', options);
}

function podIn(podState: PodState, { cluster, node, image, index, ...named }: PodOptions): KubeObject {
  const container = { name: image.split(':')[0], image: `registry.example.com/${image}`, resources: {} };
  const scheduled = podState !== 'Pending';
  const started = podState === 'Running' || podState === 'Completed';
  const phase = {
    Pending: 'Pending',
    ContainerCreating: 'Pending',
    Running: 'Running',
    Completed: 'Succeeded',
  };
  const states = {
    Pending: {},
    ContainerCreating: { waiting: { reason: 'ContainerCreating' } },
    Running: { running: { startedAt: named.made } },
    Completed: {
      terminated: { reason: 'Completed', exitCode: 0, startedAt: named.made, finishedAt: named.made },
    },
  };
  const status = {
    name: container.name,
    image: container.image,
    imageID: '',
    ready: podState === 'Running',
    restartCount: 0,
    state: states[podState],
  };
  const address = `10.${cluster.network}.0.${index}`;
  return object('v1', 'Pod', named, {
    spec: { containers: [container], ...(scheduled && { nodeName: node }), restartPolicy: 'Always' },
    status: {
      phase: phase[podState],
      ...(started && { podIP: address, podIPs: [{ ip: address }], startTime: named.made }),
      containerStatuses: scheduled ? [status] : [],
    },
  });
}

function node(cluster: DemoCluster, name: string, index: number, made: string, now: number): KubeObject {
  const role = cluster.controlPlanes.some(one => one === name) ? 'control-plane' : 'worker';
  const seen = new Date(now).toISOString();
  const quantities = { cpu: '2', memory: '4Gi', pods: '110' };
  const labels = {
    'kubernetes.io/hostname': name,
    'kubernetes.io/os': 'linux',
    [`node-role.kubernetes.io/${role}`]: '',
    'causeway.dev/cluster': cluster.name,
  };
  return object(
    'v1',
    'Node',
    { name, labels, made },
    {
      spec: { podCIDR: `10.${cluster.network}.${index}.0/24` },
      status: {
        capacity: quantities,
        allocatable: quantities,
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            reason: 'KubeletReady',
            message: 'this node is a stand-in of causeway demo',
            lastHeartbeatTime: seen,
            lastTransitionTime: made,
          },
        ],
        addresses: [
          { type: 'InternalIP', address: `10.${cluster.network}.255.${10 + index}` },
          { type: 'Hostname', address: name },
        ],
        nodeInfo: {
          kubeletVersion: KUBERNETES_VERSION,
          kubeProxyVersion: '',
          osImage: 'Causeway demo',
          kernelVersion: '6.1.0',
          containerRuntimeVersion: 'demo://1.0',
          operatingSystem: 'linux',
          architecture: 'amd64',
          machineID: '',
          systemUUID: '',
          bootID: '',
        },
      },
    },
  );
}

function lease(name: string, made: string, now: number): KubeObject {
  // Times in a Lease have microseconds.
  const renewTime = new Date(now).toISOString().replace('Z', '000Z');
  const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime };
  return object('coordination.k8s.io/v1', 'Lease', { namespace: 'kube-node-lease', name, made }, { spec });
}

function service(
  namespace: string,
  name: string,
  clusterIP: string,
  port: number,
  made: string,
  selector?: Readonly<Record<string, string>>,
): KubeObject {
  // `kubectl cluster-info` lists Services with these labels.
  const labels =
    name === 'kube-dns' ? { 'kubernetes.io/cluster-service': 'true', 'kubernetes.io/name': 'CoreDNS' } : {};
  const protocol = port === 53 ? 'UDP' : 'TCP';
  return object(
    'v1',
    'Service',
    { namespace, name, labels, made },
    {
      spec: { type: 'ClusterIP', clusterIP, ports: [{ port, protocol, targetPort: port }], selector },
      status: { loadBalancer: {} },
    },
  );
}

function deployment(namespace: string, name: string, replicas: number, made: string): KubeObject {
  const labels = { app: name };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name, image: `registry.example.com/${name}` }] },
  };
  return object(
    'apps/v1',
    'Deployment',
    { namespace, name, labels, made },
    {
      spec: { replicas, selector: { matchLabels: labels }, template },
      status: { replicas, readyReplicas: replicas, updatedReplicas: replicas, availableReplicas: replicas },
    },
  );
}

function object(
  apiVersion: string,
  kind: string,
  { made, ...named }: Pick<Metadata, 'name' | 'namespace' | 'labels'> & { readonly made: string },
  content: Pick<KubeObject, 'spec' | 'status'>,
): KubeObject {
  // Whole seconds, as Kubernetes writes times.
  const creationTimestamp = `${made.slice(0, 19)}Z`;
  return { apiVersion, kind, metadata: { ...named, uid: uidOf(kind, named), creationTimestamp }, ...content };
}

/** Derived from the name, so that a rewritten object keeps its uid. */
function uidOf(kind: string, { namespace = '', name }: Pick<Metadata, 'name' | 'namespace'>): string {
  const hex = createHash('sha256').update(`${kind} ${namespace} ${name}`).digest('hex');
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 9);
}
