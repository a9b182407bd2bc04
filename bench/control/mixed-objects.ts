// Clusters of each system as its operator leaves them, with Service, EndpointSlice and Secret, for `--kind mixed`.

import type { MergePatch } from '../../src/kube/kube-api.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { apiVersionOf, endpointSlices, type Resource, resource, services } from '../../src/kube/resources.ts';
import { secrets } from '../../src/kube/tenant-credentials.ts';
import { clusterApiClusters } from '../../src/sources/cluster-api.ts';
import { hostedClusters, openShiftRoutes } from '../../src/sources/hosted-cluster.ts';
import { publishedSpec, sampleRoutes, sampleServices } from '../../src/sources/hypershift.samples.ts';
import { k0smotronClusters } from '../../src/sources/k0smotron.ts';
import { wholeKubermatic } from '../../src/sources/kubermatic.samples.ts';
import { kubermaticClusters } from '../../src/sources/kubermatic-object.ts';
import { documentedTenant } from '../../src/sources/tenant.samples.ts';
import { kamaji, steward, type TenantSystem } from '../../src/sources/tenant-control-plane.ts';
import { sliceOf, tcpPorts } from './kube-bed.ts';

const DOMAIN = 'example.com';
const HOSTS = 'causeway.dev/hosts';
const MAPPING = 'nodeport-proxy.k8s.io/port-mapping';
const namespaces: Resource<KubeObject> = resource('v1', 'namespaces', 'Namespace');

export interface Made {
  readonly resource: Resource<KubeObject>;
  readonly object: KubeObject;
  /** Written afterwards, as API servers ignore it in a new object. */
  readonly status?: object;
}

export interface Change {
  readonly resource: Resource<KubeObject>;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly patch: MergePatch;
}

export interface MixedKind {
  /** In causeway.yaml, besides the kubeconfig. */
  readonly source: string;
  readonly options?: string;
  /** Its file in testbed/crds, and the name of what it defines. */
  readonly definitions: readonly (readonly [file: string, resource: string])[];
  /** Once for all its clusters. */
  readonly common: readonly Made[];
  /** In this order. `kubeconfig`: of the user cluster. */
  objects(name: string, kubeconfig: string): readonly Made[];
  /** Gives the cluster another host. */
  change(name: string, host: string): Change;
}

const NS = { k0smotron: 'k0smotron', clusterApi: 'capi', hypershift: 'clusters', services: 'apps' };

export const mixedKinds: readonly MixedKind[] = [
  tenants('kamaji', kamaji),
  tenants('steward', steward),
  {
    source: 'hypershift',
    definitions: [
      ['hypershift-hostedclusters', 'hostedclusters.hypershift.openshift.io'],
      ['openshift-routes', 'routes.route.openshift.io'],
    ],
    common: [namespace(NS.hypershift)],
    objects: hostedCluster,
    change: (name, host) => ({
      resource: hostedClusters,
      namespace: NS.hypershift,
      name,
      patch: { spec: { kubeAPIServerDNSName: host } },
    }),
  },
  {
    source: 'kubermatic',
    options: `zone: apps.${DOMAIN}`,
    definitions: [['kubermatic-clusters', 'clusters.kubermatic.k8c.io']],
    common: [],
    objects: userCluster,
    change: (name, host) => ({
      resource: services,
      namespace: `cluster-${name}`,
      name: 'apiserver-external',
      patch: annotation(MAPPING, JSON.stringify({ secure: host })),
    }),
  },
  {
    source: 'clusterApi',
    definitions: [['cluster-api-clusters', 'clusters.cluster.x-k8s.io']],
    common: [namespace(NS.clusterApi)],
    objects: (name, kubeconfig) => [
      secret(NS.clusterApi, `${name}-kubeconfig`, 'value', kubeconfig),
      ...service(NS.clusterApi, `${name}-control-plane`, { https: 6443 }),
      custom(clusterApiClusters, NS.clusterApi, name, {
        controlPlaneEndpoint: { host: `${name}.capi.${DOMAIN}`, port: 443 },
      }),
    ],
    change: (name, host) => ({
      resource: clusterApiClusters,
      namespace: NS.clusterApi,
      name,
      patch: { spec: { controlPlaneEndpoint: { host } } },
    }),
  },
  {
    source: 'k0smotron',
    definitions: [['k0smotron-clusters', 'clusters.k0smotron.io']],
    common: [namespace(NS.k0smotron)],
    objects: (name, kubeconfig) => [
      secret(NS.k0smotron, `${name}-kubeconfig`, 'value', kubeconfig),
      ...service(NS.k0smotron, `kmc-${name}`, { api: 30_443, konnectivity: 30_132 }),
      custom(k0smotronClusters, NS.k0smotron, name, {
        ingress: {
          deploy: false,
          apiHost: `${name}.k0s.${DOMAIN}`,
          konnectivityHost: `${name}.konnectivity.k0s.${DOMAIN}`,
        },
      }),
    ],
    change: (name, host) => ({
      resource: k0smotronClusters,
      namespace: NS.k0smotron,
      name,
      patch: { spec: { ingress: { apiHost: host } } },
    }),
  },
];

export const annotatedServices: MixedKind = {
  source: 'services',
  options: `domains: [${DOMAIN}]`,
  definitions: [],
  common: [namespace(NS.services)],
  objects: name => service(NS.services, name, { https: 443 }, { [HOSTS]: `${name}.services.${DOMAIN}` }),
  change: (name, host) => ({
    resource: services,
    namespace: NS.services,
    name,
    patch: annotation(HOSTS, host),
  }),
};

function tenants(source: 'kamaji' | 'steward', system: TenantSystem): MixedKind {
  const [domain] = system.domainAnnotations;
  return {
    source,
    definitions: [[`${source}-tenantcontrolplanes`, `tenantcontrolplanes.${system.resource.group}`]],
    common: [namespace(source)],
    objects(name, kubeconfig) {
      const { spec } = documentedTenant(source, name, DOMAIN);
      return [
        secret(source, `${name}-admin-kubeconfig`, 'admin.conf', kubeconfig),
        ...service(source, name, { 'kube-apiserver': 6443, 'konnectivity-server': 8132 }),
        custom(system.resource, source, name, spec as object, { [domain]: DOMAIN }),
      ];
    },
    change: (name, host) => ({
      resource: system.resource,
      namespace: source,
      name,
      patch: annotation(domain, host),
    }),
  };
}

/** Published as on ARO: five Services in a namespace of its own, a Route to each. */
function hostedCluster(name: string, kubeconfig: string): readonly Made[] {
  const own = `${NS.hypershift}-${name}`;
  const domain = `${name}.hosted.${DOMAIN}`;
  const spec = {
    ...publishedSpec(domain),
    clusterID: crypto.randomUUID(),
    platform: { type: 'None' },
    release: { image: 'release.example.com/ocp:4.20' },
    pullSecret: { name: 'pull' },
    etcd: { managementType: 'Managed', managed: { storage: { type: 'PersistentVolume' } } },
    networking: { apiServer: { allowedCIDRBlocks: ['203.0.113.0/24', '2001:db8::/32'] } },
  };
  const ports = (each: KubeObject) =>
    (each as unknown as { spec: { ports: readonly { port: number }[] } }).spec.ports;
  return [
    namespace(own),
    secret(NS.hypershift, `${name}-admin-kubeconfig`, 'kubeconfig', kubeconfig),
    ...sampleServices(own).flatMap(each => service(own, each.metadata.name, { https: ports(each)[0].port })),
    ...sampleRoutes(own, domain).map(object => ({ resource: openShiftRoutes, object })),
    custom(hostedClusters, NS.hypershift, name, spec),
  ];
}

/** Of Kubermatic, exposed by a tunnel and by SNI. */
function userCluster(name: string, kubeconfig: string): readonly Made[] {
  const own = `cluster-${name}`;
  const host = `${name}.kubermatic.${DOMAIN}`;
  const { spec } = wholeKubermatic(name);
  const annotations = {
    'nodeport-proxy.k8s.io/expose': 'SNI,Tunneling',
    [MAPPING]: JSON.stringify({ secure: host }),
  };
  return [
    namespace(own),
    secret(own, 'admin-kubeconfig', 'kubeconfig', kubeconfig),
    ...service(own, 'apiserver-external', { secure: 443 }, annotations),
    {
      ...custom(kubermaticClusters, undefined, name, spec),
      status: { namespaceName: own, address: { externalName: host } },
    },
  ];
}

function namespace(name: string): Made {
  return { resource: namespaces, object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } } };
}

function secret(namespace: string, name: string, key: string, text: string): Made {
  const data = { [key]: Buffer.from(text).toString('base64') };
  const object = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, data };
  return { resource: secrets, object };
}

function service(
  namespace: string,
  name: string,
  given: Readonly<Record<string, number>>,
  annotations: Readonly<Record<string, string>> = {},
): readonly Made[] {
  const ports = tcpPorts(given);
  const metadata = { name, namespace, annotations };
  return [
    {
      resource: services,
      object: { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports } } as KubeObject,
    },
    { resource: endpointSlices, object: sliceOf(namespace, name, ports) },
  ];
}

function custom(
  resource: Resource<KubeObject>,
  namespace: string | undefined,
  name: string,
  spec: object,
  annotations: Readonly<Record<string, string>> = {},
): Made {
  const metadata = { name, annotations, ...(namespace !== undefined && { namespace }) };
  return {
    resource,
    object: { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata, spec } as KubeObject,
  };
}

function annotation(key: string, value: string): MergePatch {
  return { metadata: { annotations: { [key]: value } } };
}
