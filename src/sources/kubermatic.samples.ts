// Kubermatic's seed cluster and user clusters in memory, for tests: a test states only what matters to it.

import assert from 'node:assert/strict';
import { type MemoryStore, memoryStore } from '../../testbed/memory-kube-api.ts';
import { type TestClock, testClock } from '../../testbed/test-clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { SourceOptions } from '../config/config.ts';
import type { KubeAccess } from '../kube/kube-access.ts';
import { failed, type KubeApi } from '../kube/kube-api.ts';
import type { KubeObject, Node } from '../kube/kube-object.ts';
import { openKubermatic } from './kubermatic.ts';
import { sampleSlice } from './services.samples.ts';
import type { Source, SourceContext } from './source.ts';

export const KUBERMATIC_DEFINITION = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'clusters.kubermatic.k8c.io' },
  spec: {
    group: 'kubermatic.k8c.io',
    scope: 'Cluster',
    names: { plural: 'clusters', kind: 'Cluster' },
    versions: [{ name: 'v1', served: true }],
  },
};

/** Has every field that the real definition requires. */
export function wholeKubermatic(id: string): KubeObject & { readonly spec: object } {
  const cidrs = (cidr: string) => ({ cidrBlocks: [cidr] });
  return {
    apiVersion: 'kubermatic.k8c.io/v1',
    kind: 'Cluster',
    metadata: { name: id },
    spec: {
      humanReadableName: id,
      version: '1.33.0',
      exposeStrategy: 'Tunneling',
      cloud: { dc: 'eu', providerName: 'bringyourown' },
      clusterNetwork: {
        dnsDomain: 'cluster.local',
        proxyMode: 'nftables',
        pods: cidrs('172.25.0.0/16'),
        services: cidrs('10.240.16.0/20'),
      },
    },
  };
}

/** Its object as Kubermatic leaves it, exposed by a tunnel. */
export function sampleKubermatic(
  id: string,
  given: { spec?: object; status?: object; annotations?: Record<string, string>; age?: number } = {},
): KubeObject {
  const { spec = {}, status = {}, annotations = {}, age = 100 } = given;
  return {
    apiVersion: 'kubermatic.k8c.io/v1',
    kind: 'Cluster',
    metadata: { name: id, uid: `uid-${id}`, creationTimestamp: createdAt(age), annotations },
    spec: { exposeStrategy: 'Tunneling', ...spec },
    status: { address: { externalName: `${id}.eu.k8c.example` }, namespaceName: `cluster-${id}`, ...status },
  } as KubeObject;
}

function createdAt(age: number): string {
  return new Date(Date.UTC(2026, 0, 1) - age * 1000).toISOString();
}

export interface SampleProxied {
  readonly expose?: string;
  /** Text as it is; a map becomes JSON. */
  readonly mapping?: object | string;
  readonly ports?: readonly { readonly name: string; readonly port: number }[];
  readonly age?: number;
  readonly spec?: object;
}

/** A Service in the control plane of that cluster, and its slice. */
export function sampleProxied(id: string, name: string, given: SampleProxied = {}): readonly KubeObject[] {
  const { expose, mapping, age = 50, spec = {}, ports = [{ name: 'secure', port: 443 }] } = given;
  const namespace = `cluster-${id}`;
  const text = typeof mapping === 'string' ? mapping : JSON.stringify(mapping);
  const annotations = {
    ...(expose !== undefined && { 'nodeport-proxy.k8s.io/expose': expose }),
    ...(mapping !== undefined && { 'nodeport-proxy.k8s.io/port-mapping': text }),
  };
  const uid = `uid-${id}-${name}`;
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, uid, creationTimestamp: createdAt(age), annotations },
    spec: { type: 'ClusterIP', clusterIPs: ['10.96.0.1'], ports, ...spec },
  } as KubeObject;
  const slicePorts = ports.map(port => ({ ...port, port: port.port + 6000, protocol: 'TCP' }));
  return [service, sampleSlice(name, { namespace, ports: slicePorts })];
}

/** As Kubermatic exposes the API server of that cluster. */
export function sampleApiService(id: string, given: SampleProxied = {}): readonly KubeObject[] {
  const mapping = { secure: `${id}.eu.k8c.example` };
  return sampleProxied(id, 'apiserver-external', { expose: 'SNI,Tunneling', mapping, ...given });
}

/** Leads to the user cluster `<id>.tenant` in memory. */
export function sampleKubeconfig(id: string, token = 'admin'): KubeObject {
  const text = JSON.stringify({
    clusters: [{ name: 'x', cluster: { server: `https://${id}.tenant:6443` } }],
    users: [{ name: 'x', user: { token } }],
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
    'current-context': 'x',
  });
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'admin-kubeconfig', namespace: `cluster-${id}` },
    data: { kubeconfig: Buffer.from(text).toString('base64') },
  } as KubeObject;
}

export function sampleNode(
  name: string,
  addresses: readonly (readonly [string, string])[],
  { ready = 'True', unschedulable = false } = {},
): Node {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, uid: `uid-${name}` },
    ...(unschedulable && { spec: { unschedulable } }),
    status: {
      conditions: [{ type: 'Ready', status: ready }],
      addresses: addresses.map(([type, address]) => ({ type, address })),
    },
  };
}

export interface KubermaticWorld extends AsyncDisposable {
  readonly seed: MemoryStore;
  readonly source: Source;
  readonly clock: TestClock;
  /** User clusters by id; one that is missing cannot be reached. */
  readonly tenants: Map<string, MemoryStore>;
  /** Calls to user clusters that arrived: `<id> <token> <method>`. */
  readonly calls: string[];
  changes: number;
  /** Clients of user clusters that are open. */
  clients: number;
  /** Those of the Clusters themselves, by name. */
  cluster(name: string): Cluster | undefined;
  /** `<cluster> <code>`. */
  codes(): readonly string[];
}

export function kubermaticWorld(
  objects: readonly KubeObject[],
  options: Partial<SourceOptions['kubermatic']> = {},
  context: Partial<SourceContext> = {},
): KubermaticWorld {
  const seed = memoryStore(KUBERMATIC_DEFINITION, ...objects);
  const clock = testClock();
  const tenants = new Map<string, MemoryStore>();
  const openClient = (access: KubeAccess): KubeApi & Disposable => {
    world.clients++;
    /** Found anew for each call, as a real client connects anew. */
    const reach = async (method: string) => {
      try {
        const { serverName, headers } = await access.credentials();
        const [id] = serverName.split('.');
        const found = tenants.get(id)?.client();
        const token = headers.Authorization?.replace('Bearer ', '');
        if (found !== undefined) world.calls.push(`${id} ${token} ${method}`);
        if (token === 'refused') return failed(401, 'Unauthorized', 'the token is not known');
        return found ?? failed(0, 'Unreachable', 'connect ECONNREFUSED');
      } catch (error) {
        return failed(0, 'Credentials', (error as Error).message);
      }
    };
    return {
      ...seed.client(),
      async list(...args) {
        const api = await reach('list');
        return 'ok' in api ? api : api.list(...args);
      },
      async watch(...args) {
        const api = await reach('watch');
        return 'ok' in api ? { why: 'failed', fault: api.fault } : api.watch(...args);
      },
      [Symbol.dispose]: () => void world.clients--,
    };
  };
  const source = openKubermatic(
    { via: 'endpoints', ...options },
    { name: 'kubermatic', folder: '/', kubeApi: () => seed.client(), clock, openClient, ...context },
    () => world.changes++,
  );
  const world: KubermaticWorld = {
    seed,
    source,
    clock,
    tenants,
    calls: [],
    changes: 0,
    clients: 0,
    cluster: name =>
      source
        .observe()
        .clusters.find(({ name: is, origin }) => is === name && origin.object?.kind === 'Cluster'),
    codes: () => source.observe().findings.map(({ cluster, code }) => `${cluster} ${code}`),
    [Symbol.asyncDispose]: async () => {
      await source[Symbol.asyncDispose]();
      assert.equal(world.clients, 0, 'clients of user clusters that stay open');
    },
  };
  return world;
}
